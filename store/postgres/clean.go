package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/strikesmq/strikes/internal/sqlstore"
)

// sweep returns a sweep of sqlstore.Clean. Each call deletes those of the next rows of a table that have expired. After
// the last rows it begins again.
func (s *Store) sweep(sql string) func(ctx context.Context) (deleted int, err error) {
	before := [3][]byte{{}, {}, {}} // less than every row; nil would be NULL
	last := before
	return func(ctx context.Context) (deleted int, err error) {
		ctx, cancel := s.base.Within(ctx)
		defer cancel()
		args := pgx.NamedArgs{"queue": last[0], "set": last[1], "name": last[2], "n": sqlstore.CleanBatch,
			"grace": sqlstore.CleanGrace.Milliseconds()}
		var read int
		err = s.pool.QueryRow(ctx, sql, args).Scan(&read, &deleted, &last[0], &last[1], &last[2])
		if err == nil && read < sqlstore.CleanBatch {
			last = before
		}
		return deleted, err
	}
}

// A row that another transaction has locked is about to change, and is skipped.
const cleanDocs = `WITH part AS MATERIALIZED (SELECT queue, name, expires FROM strikes_doc
	WHERE (queue, name) > (@queue, @name) AND @set::bytea IS NOT NULL ORDER BY queue, name LIMIT @n),
old AS MATERIALIZED (SELECT d.queue, d.name FROM strikes_doc d JOIN part p ON d.queue = p.queue AND d.name = p.name
	WHERE p.expires > 0 AND d.expires > 0 AND d.expires < ` + micros + ` / 1000 - @grace::bigint
	FOR UPDATE OF d SKIP LOCKED),
gone AS (DELETE FROM strikes_doc d USING old WHERE d.queue = old.queue AND d.name = old.name RETURNING 1),
last AS (SELECT queue, name FROM part ORDER BY queue DESC, name DESC LIMIT 1)
SELECT (SELECT count(*) FROM part), (SELECT count(*) FROM gone), (SELECT queue FROM last), ''::bytea,
	(SELECT name FROM last)`

const cleanMembers = `WITH part AS MATERIALIZED (SELECT queue, "set", name, expires FROM strikes_member
	WHERE (queue, "set", name) > (@queue, @set, @name) ORDER BY queue, "set", name LIMIT @n),
old AS MATERIALIZED (SELECT d.queue, d."set", d.name FROM strikes_member d JOIN part p USING (queue, "set", name)
	WHERE p.expires > 0 AND d.expires > 0 AND d.expires < ` + micros + ` / 1000 - @grace::bigint
	AND NOT EXISTS (SELECT FROM strikes_member k WHERE k.queue = d.queue AND k."set" = '' AND k.name = d."set"
		AND k.expires > ` + micros + ` / 1000 - @grace::bigint)
	FOR UPDATE OF d SKIP LOCKED),
gone AS (DELETE FROM strikes_member d USING old
	WHERE d.queue = old.queue AND d."set" = old."set" AND d.name = old.name RETURNING 1),
last AS (SELECT queue, "set", name FROM part ORDER BY queue DESC, "set" DESC, name DESC LIMIT 1)
SELECT (SELECT count(*) FROM part), (SELECT count(*) FROM gone), (SELECT queue FROM last), (SELECT "set" FROM last),
	(SELECT name FROM last)`
