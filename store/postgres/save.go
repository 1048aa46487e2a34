package postgres

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Save is that of counter.Store. It is one statement in one transaction of one round trip.
//
// The transaction is READ COMMITTED. It first takes advisory locks for the documents of the queue, and then sees all
// commits before it. So a document that does not exist stays away. Records have no advisory locks,
// because a batch has many. An existing record is locked by its row. Two processes that insert the same record get a
// unique violation, and Save begins again. All locks are taken in one order, so Saves do not deadlock.
func (s *Store) Save(ctx context.Context, of counter.Queue, changes ...counter.Change) ([]bool, error) {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	versions := make([]int64, len(changes))
	for {
		err := s.saveAll(ctx, of, changes, versions)
		if err == nil {
			return sqlstore.Saved(changes, versions), nil
		}
		if !passes(err) || ctx.Err() != nil {
			return nil, s.base.Failed(err)
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

// part is a document, a member or a sum of a change.
type part[T any] struct {
	change int32
	is     T
	act    int32
}

// column returns a value of each part, as a column of the table that the statement makes of them.
func column[P, V any](parts []P, value func(P) V) []V {
	out := make([]V, len(parts))
	for i, p := range parts {
		out[i] = value(p)
	}
	return out
}

// saveAll tries once to save, and sets the versions of the changes that were made.
func (s *Store) saveAll(ctx context.Context, of counter.Queue, changes []counter.Change, versions []int64) error {
	type (
		doc    = part[counter.Doc]
		member = part[counter.Member]
		sum    = part[counter.Sum]
	)
	var docs []doc
	var members []member
	var sums []sum
	var locks [][]byte // documents with an advisory lock
	var alone []bool   // the lock is exclusive
	isRecord := func(name string) bool { return strings.HasPrefix(name, "r:") }
	lock := func(name string, exclusive bool) {
		locks, alone = append(locks, []byte(name)), append(alone, exclusive)
	}
	for i, c := range changes {
		n := int32(i)
		for _, d := range c.Same {
			act := compares
			if isRecord(d.Name) {
				act = stays
			} else {
				lock(d.Name, false)
			}
			docs = append(docs, doc{n, d, act})
		}
		for _, d := range c.Docs {
			act := writes
			if d.Any {
				act = replaces
			}
			docs = append(docs, doc{n, d, act})
			if !isRecord(d.Name) {
				lock(d.Name, true)
			}
		}
		for _, m := range c.Sets {
			members = append(members, member{change: n, is: sqlstore.Row(m)})
		}
		for _, a := range c.Add {
			sums, docs = append(sums, sum{change: n, is: a}), append(docs, doc{n, counter.Doc{Name: a.Doc}, adds})
			lock(a.Doc, true)
		}
	}
	queue, version := s.base.Key(of), rand.Int64N(1<<62)+1 //nolint:gosec // no secret
	args := []any{queue, version, len(changes),
		column(docs, func(d doc) int32 { return d.change }), column(docs, func(d doc) int32 { return d.act }),
		column(docs, func(d doc) []byte { return []byte(d.is.Name) }), column(docs, versionOfDoc),
		column(docs, func(d doc) []byte { return []byte(d.is.Data) }),
		column(docs, func(d doc) int64 { return sqlstore.Millis(d.is.Expires) }),
		column(members, func(m member) int32 { return m.change }),
		column(members, func(m member) []byte { return []byte(m.is.Set) }),
		column(members, func(m member) []byte { return []byte(m.is.Name) }),
		column(members, func(m member) int64 { return m.is.Score }),
		column(members, func(m member) bool { return m.is.Gone }),
		column(members, func(m member) int64 { return sqlstore.Millis(m.is.Expires) })}
	sql := saveSQL
	if slices.ContainsFunc(docs, func(d doc) bool { return d.is.Data == "" && (d.act == writes || d.act == replaces) }) {
		sql += removedSQL
	}
	if slices.ContainsFunc(members, func(m member) bool { return m.is.Gone }) {
		sql += goneSQL
	}
	if slices.ContainsFunc(members, func(m member) bool { return !m.is.Gone }) {
		sql += movedSQL
	}
	if sums != nil {
		sql += addSQL
		args = append(args, column(sums, func(a sum) int32 { return a.change }),
			column(sums, func(a sum) []byte { return []byte(a.is.Doc) }),
			column(sums, func(a sum) string { return a.is.Field }), column(sums, func(a sum) int64 { return a.is.By }),
			column(sums, func(a sum) int64 { return sqlstore.Millis(a.is.Expires) }))
	}
	var made []int32
	save := &pgx.QueuedQuery{SQL: sql + " SELECT change FROM ok", Arguments: args}
	save.Query(func(rows pgx.Rows) (err error) {
		made, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	err := s.run(ctx, &pgx.QueuedQuery{SQL: lockSQL, Arguments: []any{queue, locks, alone}}, save)
	for _, n := range made {
		versions[n] = version
	}
	return err
}

// versionOfDoc is -1, which no document has, if it is not one of this Store.
func versionOfDoc(d part[counter.Doc]) int64 {
	version, err := strconv.ParseInt(cmp.Or(d.is.Version, "0"), 10, 64)
	if err != nil {
		return -1
	}
	return version
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

// saveSQL decides which changes are made, in ok, and writes them. It locks documents in the order of their names. ok
// counts them, so that they are locked before members are, also if no version is compared. A document that exists is
// written by an INSERT that always conflicts: a join of an UPDATE may read the whole queue.
const saveSQL = `WITH clock AS MATERIALIZED (SELECT ` + micros + ` / 1000 AS now),
doc AS MATERIALIZED (SELECT * FROM unnest($4::int[], $5::int[], $6::bytea[], $7::bigint[], $8::bytea[], $9::bigint[])
	AS t (change, act, name, version, data, expires)),
member AS MATERIALIZED (SELECT * FROM
	unnest($10::int[], $11::bytea[], $12::bytea[], $13::bigint[], $14::boolean[], $15::bigint[])
	AS t (change, "set", name, score, gone, expires)),
locked AS MATERIALIZED (SELECT d.* FROM (SELECT DISTINCT name FROM doc WHERE act > 0 ORDER BY name) t,
	LATERAL (SELECT name, version, expires FROM strikes_doc WHERE queue = $1 AND name = t.name FOR UPDATE) d),
seen AS MATERIALIZED (SELECT s.name, s.version FROM (SELECT * FROM locked UNION ALL
	SELECT d.* FROM (SELECT DISTINCT name FROM doc WHERE act = 0) t, LATERAL (SELECT name, version, expires
	FROM strikes_doc WHERE queue = $1 AND name = t.name OFFSET 0) d) s, clock
	WHERE s.expires = 0 OR s.expires > clock.now),
stale AS MATERIALIZED (SELECT doc.change FROM doc LEFT JOIN seen USING (name)
	WHERE doc.act < 3 AND doc.version <> coalesce(seen.version, 0)),
ok AS MATERIALIZED (SELECT change FROM generate_series(0, $3::int - 1) change
	WHERE (SELECT count(*) FROM locked) >= 0 AND change NOT IN (SELECT change FROM stale)),
written AS MATERIALIZED (SELECT doc.* FROM doc JOIN ok USING (change) WHERE doc.act IN (2, 3)),
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
leaving AS MATERIALIZED (SELECT m.* FROM (SELECT "set", name FROM member JOIN ok USING (change) WHERE gone
	ORDER BY "set", name) e,
	LATERAL (SELECT queue, "set", name FROM strikes_member WHERE queue = $1 AND "set" = e."set" AND name = e.name
	FOR UPDATE) m),
left_it AS (DELETE FROM strikes_member m USING leaving e
	WHERE m.queue = e.queue AND m."set" = e."set" AND m.name = e.name)`

const movedSQL = `,
moved AS (INSERT INTO strikes_member (queue, "set", name, score, expires)
	SELECT $1, "set", name, score, expires FROM member JOIN ok USING (change) WHERE NOT gone ORDER BY "set", name
	ON CONFLICT (queue, "set", name) DO UPDATE SET score = excluded.score,
	expires = CASE WHEN excluded.expires = 0 THEN 0 ELSE greatest(strikes_member.expires, excluded.expires) END)`

// addSQL adds to the sums of documents. One that expired begins again. The advisory locks keep others from inserting
// the same document.
const addSQL = `,
added AS MATERIALIZED (SELECT doc, jsonb_object_agg(field, by) AS sums, max(expires) AS expires FROM
	(SELECT t.doc, t.field, sum(t.by)::bigint AS by, max(t.expires) AS expires
	FROM unnest($16::int[], $17::bytea[], $18::text[], $19::bigint[], $20::bigint[])
		AS t (change, doc, field, by, expires)
	JOIN ok USING (change) GROUP BY t.doc, t.field) each GROUP BY doc),
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
