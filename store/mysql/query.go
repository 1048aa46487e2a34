package mysql

import "strings"

// query is SQL, of one or several statements, and its arguments. All names and data are []byte: the driver writes them
// as binary literals, which no character set changes.
type query struct {
	sql  strings.Builder
	args []any
}

func (q *query) add(sql string, args ...any) *query {
	q.sql.WriteString(sql)
	q.args = append(q.args, args...)
	return q
}

// rows adds rows of arguments, in parentheses.
func (q *query) rows(rows [][]any) *query {
	for i, row := range rows {
		if i > 0 {
			q.sql.WriteByte(',')
		}
		q.sql.WriteString("(?" + strings.Repeat(",?", len(row)-1) + ")")
		q.args = append(q.args, row...)
	}
	return q
}

// in adds a list of names.
func (q *query) in(names []string) *query {
	row := make([]any, len(names))
	for i, name := range names {
		row[i] = []byte(name)
	}
	return q.add(" IN ").rows([][]any{row})
}
