package mysql

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/strikesmq/strikes/internal/sqlstore"
)

// sweep is a table with the column of its sets, and the place after which its next rows are read.
type sweep struct {
	table, set string
	also       string    // a further condition of a deletion, as SQL
	after      [3][]byte // queue, set and name
}

// first is before every row. A nil would be NULL.
var first = [3][]byte{{}, {}, {}}

var (
	docs    = sweep{table: "strikes_doc", set: "''", after: first}
	members = sweep{table: "strikes_member", set: "set_name", also: unkept, after: first}
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
	grace, queue, set, name := sqlstore.CleanGrace.Milliseconds(), at.after[0], at.after[1], at.after[2]
	q := new(query).add("SELECT queue, "+at.set+", name, "+old+at.also+" FROM "+at.table+" t WHERE ", grace)
	// (queue, set, name) > (?, ?, ?), as the servers read it from an index
	q.add("queue = ? AND "+at.set+" = ? AND name > ? OR queue = ? AND "+at.set+" > ? OR queue > ?", queue, set, name,
		queue, set, queue)
	q.add(" ORDER BY queue, "+at.set+", name LIMIT ?", sqlstore.CleanBatch)
	var expired [][3][]byte
	read, last := 0, first
	if err := s.each(ctx, s.db, q, func(rows *sql.Rows, _ int) error {
		is := false
		err := rows.Scan(&last[0], &last[1], &last[2], &is)
		if read++; is {
			expired = append(expired, last)
		}
		return err
	}); err != nil {
		return 0, err
	}
	if at.after = last; read < sqlstore.CleanBatch {
		at.after = first
	}
	if len(expired) == 0 {
		return 0, nil
	}
	q = new(query).add("DELETE t FROM "+at.table+" t FORCE INDEX (PRIMARY) WHERE "+old+" AND (FALSE", grace)
	for _, key := range expired {
		q.add(" OR queue = ? AND "+at.set+" = ? AND name = ?", key[0], key[1], key[2])
	}
	result, err := s.db.ExecContext(ctx, q.add(")").sql.String(), q.args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}
