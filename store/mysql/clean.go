package mysql

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/strikesmq/strikes/internal/sqlstore"
)

// sweep is a place in a table, after which the next rows are read.
type sweep struct {
	table string
	keys  []string // the columns of the primary key
	also  string   // a further condition of a deletion, as SQL
	after []any    // nil: the first rows
}

var (
	docs    = sweep{table: "strikes_doc", keys: []string{"queue", "name"}}
	members = sweep{table: "strikes_member", keys: []string{"queue", "set_name", "name"}, also: unkept}
)

// unkept is the condition that no row of sqlstore.Row keeps the set of a member.
var unkept = " AND NOT EXISTS (SELECT 1 FROM strikes_member k FORCE INDEX (PRIMARY) WHERE k.queue = t.queue " +
	"AND k.set_name = '' AND k.name = t.set_name AND k.expires > " + micros + " DIV 1000 - " +
	strconv.FormatInt(sqlstore.CleanGrace.Milliseconds(), 10) + ")"

// sweep returns a sweep of sqlstore.Clean.
func (s *Store) sweep(at sweep) func(context.Context) (deleted int, err error) {
	return func(ctx context.Context) (int, error) { return s.cleanSome(ctx, &at) }
}

// cleanSome deletes those of the next rows of a table that have expired. After the last rows it begins again.
func (s *Store) cleanSome(ctx context.Context, at *sweep) (deleted int, err error) {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	const old = "expires > 0 AND expires < " + micros + " DIV 1000 - ?"
	grace, columns := sqlstore.CleanGrace.Milliseconds(), strings.Join(at.keys, ", ")
	q := new(query).add("SELECT "+columns+", "+old+at.also+" FROM "+at.table+" t", grace)
	for i := range at.after { // (a, b) > (x, y), as the servers read it from an index
		q.add([]string{" WHERE ", " OR "}[min(i, 1)])
		for j := range i {
			q.add(at.keys[j]+" = ? AND ", at.after[j])
		}
		q.add(at.keys[i]+" > ?", at.after[i])
	}
	q.add(" ORDER BY "+columns+" LIMIT ?", sqlstore.CleanBatch)
	var expired [][]any
	var last []any
	read := 0
	if err := s.each(ctx, s.db, q, func(rows *sql.Rows, _ int) error {
		key, to, is := make([][]byte, len(at.keys)), make([]any, len(at.keys)), false
		for i := range key {
			to[i] = &key[i]
		}
		err := rows.Scan(append(to, &is)...)
		for i := range key {
			to[i] = key[i]
		}
		if read, last = read+1, to; is {
			expired = append(expired, to)
		}
		return err
	}); err != nil {
		return 0, err
	}
	if at.after = last; read < sqlstore.CleanBatch {
		at.after = nil
	}
	if len(expired) == 0 {
		return 0, nil
	}
	q = new(query).add("DELETE t FROM "+at.table+" t FORCE INDEX (PRIMARY) WHERE "+old+" AND (", grace)
	for i, key := range expired {
		if i > 0 {
			q.add(" OR ")
		}
		q.add(strings.Join(at.keys, " = ? AND ")+" = ?", key...)
	}
	result, err := s.db.ExecContext(ctx, q.add(")").sql.String(), q.args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
