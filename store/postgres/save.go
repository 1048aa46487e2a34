package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Save is that of counter.Store. It is one statement in one transaction of one round trip.
//
// The transaction is READ COMMITTED. It first takes advisory locks for the documents of the queue, and then sees all
// commits before it. So a document that does not exist stays away. Records have no advisory locks, because a change may
// have many. An existing record is locked by its row. Two processes that insert the same record get a unique violation,
// and Save begins again. All locks are taken in one order, so Saves do not deadlock.
func (s *Store) Save(ctx context.Context, of counter.Queue, change counter.Change) (bool, error) {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	for {
		saved, err := s.saveOnce(ctx, s.base.Key(of), change)
		if err == nil || !passes(err) || ctx.Err() != nil {
			return saved, s.base.Failed(err)
		}
	}
}

// The acts of Save on a document.
const (
	compares int32 = iota // under its advisory lock
	stays                 // compares a record under the lock of its row
	writes
	replaces // whatever its version is
	adds     // to its sums
)

// column returns a value of each part of a change, as a column of the table that the statement makes of them.
func column[P, V any](parts []P, value func(P) V) []V {
	out := make([]V, len(parts))
	for i, p := range parts {
		out[i] = value(p)
	}
	return out
}

// saveOnce tries once to save.
func (s *Store) saveOnce(ctx context.Context, queue []byte, c counter.Change) (saved bool, err error) {
	var docs []counter.Doc
	var acts []int32
	var locks [][]byte // documents with an advisory lock
	var alone []bool   // the lock is exclusive
	add := func(d counter.Doc, act int32) {
		if !strings.HasPrefix(d.Name, "r:") {
			locks, alone = append(locks, []byte(d.Name)), append(alone, act != compares)
		} else if act == compares {
			act = stays
		}
		docs, acts = append(docs, d), append(acts, act)
	}
	for _, d := range c.Same {
		add(d, compares)
	}
	removes := false
	for _, d := range c.Docs {
		if removes = removes || d.Data == ""; d.Any {
			add(d, replaces)
		} else {
			add(d, writes)
		}
	}
	for _, sum := range c.Add {
		add(counter.Doc{Name: sum.Doc}, adds)
	}
	members, version := column(c.Sets, sqlstore.Row), sqlstore.NewVersion()
	args := []any{queue, version, acts, column(docs, func(d counter.Doc) []byte { return []byte(d.Name) }),
		column(docs, sqlstore.VersionOf), column(docs, func(d counter.Doc) []byte { return []byte(d.Data) }),
		column(docs, func(d counter.Doc) int64 { return sqlstore.Millis(d.Expires) }),
		column(members, func(m counter.Member) []byte { return []byte(m.Set) }),
		column(members, func(m counter.Member) []byte { return []byte(m.Name) }),
		column(members, func(m counter.Member) int64 { return m.Score }),
		column(members, func(m counter.Member) bool { return m.Gone }),
		column(members, func(m counter.Member) int64 { return sqlstore.Millis(m.Expires) })}
	sql := saveSQL
	if removes {
		sql += removedSQL
	}
	if slices.ContainsFunc(members, func(m counter.Member) bool { return m.Gone }) {
		sql += goneSQL
	}
	if slices.ContainsFunc(members, func(m counter.Member) bool { return !m.Gone }) {
		sql += movedSQL
	}
	if c.Add != nil {
		sql += addSQL
		args = append(args, column(c.Add, func(a counter.Sum) []byte { return []byte(a.Doc) }),
			column(c.Add, func(a counter.Sum) string { return a.Field }),
			column(c.Add, func(a counter.Sum) int64 { return a.By }),
			column(c.Add, func(a counter.Sum) int64 { return sqlstore.Millis(a.Expires) }))
	}
	save := &pgx.QueuedQuery{SQL: sql + " SELECT made FROM ok", Arguments: args}
	save.QueryRow(func(row pgx.Row) error { return row.Scan(&saved) })
	err = s.run(ctx, &pgx.QueuedQuery{SQL: lockSQL, Arguments: []any{queue, locks, alone}}, save)
	if saved = saved && err == nil; saved {
		sqlstore.Saved(c.Docs, version)
	}
	return saved, err
}

// Where a session is not as sessionSQL makes it, isolateSQL makes the transaction READ COMMITTED. In another the
// second statement would see the data from before the locks were taken. indexSQL has the plan use indexes as sessionSQL
// does. It also has bytes sent in hex, the only text form of them that pgx reads.
const (
	isolateSQL = `SET transaction_isolation = 'read committed'`
	// SET LOCAL would write a warning to the server's log.
	indexSQL = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('bytea_output', 'hex', true)`
)

// lockSQL takes the advisory locks of documents in the order of their keys. Before that, it divides by zero if a pooler
// has undone sessionSQL.
const lockSQL = `SELECT
	CASE WHEN alone THEN pg_advisory_xact_lock(key)::text ELSE pg_advisory_xact_lock_shared(key)::text END
	FROM (SELECT hashtextextended(encode($1::bytea || name, 'hex'), 0) AS key, bool_or(alone) AS alone
		FROM unnest($2::bytea[], $3::boolean[]) AS t (name, alone) GROUP BY name ORDER BY key OFFSET 0) t WHERE CASE
	WHEN current_setting('transaction_isolation') = 'read committed' AND current_setting('enable_seqscan') = 'off'
	THEN true ELSE 1 / (key - key) = 0 END`

// saveSQL decides in ok whether the change is made, and writes it. It locks documents in the order of their names. The
// part ok counts them, so that they are locked before members are, also if no version is compared. A document that
// exists is written by an INSERT that always conflicts: a join of an UPDATE may read the whole queue.
const saveSQL = `WITH clock AS MATERIALIZED (SELECT ` + micros + ` / 1000 AS now),
doc AS MATERIALIZED (SELECT * FROM unnest($3::int[], $4::bytea[], $5::bigint[], $6::bytea[], $7::bigint[])
	AS t (act, name, version, data, expires)),
member AS MATERIALIZED (SELECT * FROM unnest($8::bytea[], $9::bytea[], $10::bigint[], $11::boolean[], $12::bigint[])
	AS t ("set", name, score, gone, expires)),
locked AS MATERIALIZED (SELECT d.* FROM (SELECT DISTINCT name FROM doc WHERE act > 0 ORDER BY name) t,
	LATERAL (SELECT name, version, expires FROM strikes_doc WHERE queue = $1 AND name = t.name FOR UPDATE) d),
seen AS MATERIALIZED (SELECT s.name, s.version FROM (SELECT * FROM locked UNION ALL
	SELECT d.* FROM (SELECT DISTINCT name FROM doc WHERE act = 0) t, LATERAL (SELECT name, version, expires
	FROM strikes_doc WHERE queue = $1 AND name = t.name OFFSET 0) d) s, clock
	WHERE s.expires = 0 OR s.expires > clock.now),
ok AS MATERIALIZED (SELECT (SELECT count(*) FROM locked) >= 0 AND NOT EXISTS (SELECT FROM doc LEFT JOIN seen
	USING (name) WHERE doc.act < 3 AND doc.version <> coalesce(seen.version, 0)) AS made),
written AS MATERIALIZED (SELECT doc.* FROM doc, ok WHERE made AND doc.act IN (2, 3)),
updated AS (INSERT INTO strikes_doc (queue, name, data, version, expires)
	SELECT $1, w.name, w.data, $2, w.expires FROM written w JOIN locked USING (name) WHERE w.data <> ''
	ON CONFLICT (queue, name) DO UPDATE SET data = excluded.data, version = $2, expires = excluded.expires, sums = '{}'),
inserted AS (INSERT INTO strikes_doc (queue, name, data, version, expires)
	SELECT $1, w.name, w.data, $2, w.expires FROM written w
	WHERE w.data <> '' AND NOT EXISTS (SELECT FROM locked l WHERE l.name = w.name) ORDER BY w.name)`

const removedSQL = `,
removed AS (DELETE FROM strikes_doc d USING written w WHERE d.queue = $1 AND d.name = w.name AND w.data = '')`

// goneSQL deletes where the queue is equal to a column of leaving. With $1 in its place, PostgreSQL would read all
// members of the queue while the table has no statistics.
const goneSQL = `,
leaving AS MATERIALIZED (SELECT m.* FROM (SELECT "set", name FROM member, ok WHERE made AND gone
	ORDER BY "set", name) e,
	LATERAL (SELECT queue, "set", name FROM strikes_member WHERE queue = $1 AND "set" = e."set" AND name = e.name
	FOR UPDATE) m),
left_it AS (DELETE FROM strikes_member m USING leaving e
	WHERE m.queue = e.queue AND m."set" = e."set" AND m.name = e.name)`

const movedSQL = `,
moved AS (INSERT INTO strikes_member (queue, "set", name, score, expires)
	SELECT $1, "set", name, score, expires FROM member, ok WHERE made AND NOT gone ORDER BY "set", name
	ON CONFLICT (queue, "set", name) DO UPDATE SET score = excluded.score,
	expires = CASE WHEN excluded.expires = 0 THEN 0 ELSE greatest(strikes_member.expires, excluded.expires) END)`

// addSQL adds to the sums of documents. One that expired begins again. The advisory locks keep others from inserting
// the same document.
const addSQL = `,
added AS MATERIALIZED (SELECT doc, jsonb_object_agg(field, by) AS sums, max(expires) AS expires FROM
	(SELECT t.doc, t.field, sum(t.by)::bigint AS by, max(t.expires) AS expires
	FROM unnest($13::bytea[], $14::text[], $15::bigint[], $16::bigint[]) AS t (doc, field, by, expires), ok
	WHERE made GROUP BY t.doc, t.field) each GROUP BY doc),
grown AS (INSERT INTO strikes_doc AS d (queue, name, data, version, expires, sums)
	SELECT $1, doc, '', $2, expires, sums FROM added ORDER BY doc
	ON CONFLICT (queue, name) DO UPDATE SET (version, data, expires, sums) = (SELECT $2::bigint,
		CASE WHEN live THEN d.data ELSE '' END,
		CASE WHEN NOT live THEN excluded.expires WHEN d.expires = 0 THEN 0
			ELSE greatest(d.expires, excluded.expires) END,
		(SELECT jsonb_object_agg(key, n) FROM (SELECT key, sum(value::bigint) AS n FROM
			(SELECT * FROM jsonb_each_text(CASE WHEN live THEN d.sums ELSE '{}' END) UNION ALL
			SELECT * FROM jsonb_each_text(excluded.sums)) both_of GROUP BY key) total)
		FROM (SELECT d.expires = 0 OR d.expires > now AS live FROM clock) l))`
