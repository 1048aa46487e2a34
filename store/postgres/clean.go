package postgres

import (
	"context"

	"github.com/strikesmq/strikes/internal/sqlstore"
)

// sweep returns a sweep of sqlstore.Clean. Each call deletes those of the next rows of a table that have expired. After
// the last rows it begins again.
func (s *Store) sweep(sql string) func(ctx context.Context) (deleted int, err error) {
	before := [3][]byte{{}, {}, {}} // less than every row; nil would be NULL
	last := before
	return func(ctx context.Context) (deleted int, err error) {
		var read int
		args := []any{last[0], last[1], last[2], sqlstore.CleanBatch, sqlstore.CleanGrace.Milliseconds()}
		scans := []any{&read, &deleted, &last[0], &last[1], &last[2]}
		err = s.query(ctx, sql, args, scans, func() {})
		if err == nil && read < sqlstore.CleanBatch {
			last = before
		}
		return deleted, err
	}
}

// A row that another transaction has locked is about to change, and is skipped.
const cleanDocs = `WITH part AS MATERIALIZED (SELECT queue, name, expires FROM strikes_doc
	WHERE (queue, name) > ($1, $3) AND $2::bytea IS NOT NULL ORDER BY queue, name LIMIT $4),
old AS MATERIALIZED (SELECT d.queue, d.name FROM strikes_doc d JOIN part p ON d.queue = p.queue AND d.name = p.name
	WHERE p.expires > 0 AND d.expires > 0 AND d.expires < ` + micros + ` / 1000 - $5::bigint
	FOR UPDATE OF d SKIP LOCKED),
gone AS (DELETE FROM strikes_doc d USING old WHERE d.queue = old.queue AND d.name = old.name RETURNING 1),
last AS (SELECT queue, name FROM part ORDER BY queue DESC, name DESC LIMIT 1)
SELECT (SELECT count(*) FROM part), (SELECT count(*) FROM gone), (SELECT queue FROM last), ''::bytea,
	(SELECT name FROM last)`

const cleanMembers = `WITH part AS MATERIALIZED (SELECT queue, "set", name, expires FROM strikes_member
	WHERE (queue, "set", name) > ($1, $2, $3) ORDER BY queue, "set", name LIMIT $4),
old AS MATERIALIZED (SELECT d.queue, d."set", d.name FROM strikes_member d JOIN part p USING (queue, "set", name)
	WHERE p.expires > 0 AND d.expires > 0 AND d.expires < ` + micros + ` / 1000 - $5::bigint
	AND NOT EXISTS (SELECT FROM strikes_member k WHERE k.queue = d.queue AND k."set" = '' AND k.name = d."set"
		AND k.expires > ` + micros + ` / 1000 - $5::bigint)
	FOR UPDATE OF d SKIP LOCKED),
gone AS (DELETE FROM strikes_member d USING old
	WHERE d.queue = old.queue AND d."set" = old."set" AND d.name = old.name RETURNING 1),
last AS (SELECT queue, "set", name FROM part ORDER BY queue DESC, "set" DESC, name DESC LIMIT 1)
SELECT (SELECT count(*) FROM part), (SELECT count(*) FROM gone), (SELECT queue FROM last), (SELECT "set" FROM last),
	(SELECT name FROM last)`
