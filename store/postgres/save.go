package postgres

import (
	"bytes"
	"cmp"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Save is that of counter.Store. Changes that touch none of each other's documents are one statement in one transaction
// of one round trip; the others follow in order.
//
// The transaction is READ COMMITTED. It first takes advisory locks for the documents of the queue, and then sees all
// commits before it. So a document that does not exist stays away. Records have no advisory locks,
// because a batch has many. An existing record is locked by its row. Two processes that insert the same record get a
// unique violation, and Save begins again. All locks are taken in the order of their names, so Saves do not deadlock.
func (s *Store) Save(ctx context.Context, of counter.Queue, changes ...counter.Change) ([]bool, error) {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	versions := make([]int64, len(changes))
	for _, round := range roundsOf(changes) {
		for {
			err := s.saveRound(ctx, of, changes, round, versions)
			if err == nil {
				break
			}
			if !passes(err) || ctx.Err() != nil {
				return nil, s.base.Failed(err)
			}
		}
	}
	return sqlstore.Saved(changes, versions), nil
}

// roundsOf splits the indices of changes into rounds, in their order. A change begins a round if it touches a document
// that the last round writes, or writes one that the last round reads.
func roundsOf(changes []counter.Change) (rounds [][]int) {
	written, shared := map[string]bool{}, map[string]bool{} // in the last round
	for i, c := range changes {
		writes, shares := touched(c)
		if i == 0 || slices.ContainsFunc(shares, func(key string) bool { return written[key] }) ||
			slices.ContainsFunc(writes, func(key string) bool { return written[key] || shared[key] }) {
			rounds = append(rounds, nil)
			clear(written)
			clear(shared)
		}
		for _, key := range writes {
			written[key] = true
		}
		for _, key := range shares {
			shared[key] = true
		}
		last := len(rounds) - 1
		rounds[last] = append(rounds[last], i)
	}
	return rounds
}

// touched names the documents that a change writes alone, and those that others may read or add to as well.
func touched(c counter.Change) (writes, shares []string) {
	for _, d := range c.Docs {
		writes = append(writes, d.Name)
	}
	for _, m := range c.Sets {
		writes = append(writes, m.Set+"\x00"+m.Name)
	}
	for _, d := range c.Same {
		shares = append(shares, d.Name)
	}
	for _, sum := range c.Add {
		shares = append(shares, sum.Doc)
	}
	return writes, shares
}

// The acts of Save on a document.
const (
	compares = iota
	writes
	replaces // whatever its version is
)

// columns are the arguments of a round, as columns of the tables that the statement makes of them.
type columns struct {
	change, group          []int32 // changes of one group compare the same documents
	docChange, docAct      []int32 // -1 and below: of a group
	docName, docData       [][]byte
	docVersion, docExpires []int64
	addChange              []int32
	addDoc                 [][]byte
	addField               []string
	addBy, addExpires      []int64
	setChange              []int32
	setSet, setName        [][]byte
	setScore, setExpires   []int64
	setGone                []bool
	locks                  map[string]bool // of documents; true: exclusive
	compared, changed      [][]byte        // names of documents
	hasRemoved             bool
}

func columnsOf(changes []counter.Change, round []int) *columns {
	c := &columns{locks: map[string]bool{}}
	var same []counter.Doc // of the group
	group := int32(-1)
	for _, i := range round {
		change, n := changes[i], int32(i)
		if !slices.EqualFunc(change.Same, same, func(a, b counter.Doc) bool {
			return a.Name == b.Name && a.Version == b.Version
		}) {
			same = change.Same
			group--
			for _, d := range same {
				c.doc(group, compares, d)
			}
		}
		c.change, c.group = append(c.change, n), append(c.group, group)
		for _, d := range change.Docs {
			act := writes
			if d.Any {
				act = replaces
			}
			c.doc(n, act, d)
		}
		for _, sum := range change.Add {
			c.addChange, c.addDoc, c.addField = append(c.addChange, n), append(c.addDoc, []byte(sum.Doc)),
				append(c.addField, sum.Field)
			c.addBy, c.addExpires = append(c.addBy, sum.By), append(c.addExpires, sqlstore.Millis(sum.Expires))
			c.changed, c.locks[sum.Doc] = append(c.changed, []byte(sum.Doc)), true
		}
		for j, m := range change.Sets {
			if slices.ContainsFunc(change.Sets[j+1:], func(o counter.Member) bool {
				return o.Set == m.Set && o.Name == m.Name
			}) {
				continue // the last move counts
			}
			m = sqlstore.Row(m)
			c.setChange, c.setSet, c.setName = append(c.setChange, n), append(c.setSet, []byte(m.Set)),
				append(c.setName, []byte(m.Name))
			c.setScore, c.setExpires, c.setGone = append(c.setScore, m.Score), append(c.setExpires, sqlstore.Millis(m.Expires)),
				append(c.setGone, m.Gone)
		}
	}
	return c
}

func (c *columns) doc(change int32, act int, d counter.Doc) {
	version, err := strconv.ParseInt(cmp.Or(d.Version, "0"), 10, 64)
	if err != nil {
		version = -1 // no document has it
	}
	name := []byte(d.Name)
	c.docChange, c.docAct, c.docName = append(c.docChange, change), append(c.docAct, int32(act)), append(c.docName, name)
	c.docData, c.docVersion = append(c.docData, []byte(d.Data)), append(c.docVersion, version)
	c.docExpires = append(c.docExpires, sqlstore.Millis(d.Expires))
	if act == compares {
		c.compared = append(c.compared, name)
		c.locks[d.Name] = c.locks[d.Name] //nolint:staticcheck // it puts the name there
		return
	}
	c.changed, c.hasRemoved = append(c.changed, name), c.hasRemoved || d.Data == ""
	if !strings.HasPrefix(d.Name, "r:") {
		c.locks[d.Name] = true
	}
}

// advisory returns the keys of the advisory locks in their order, and which are exclusive.
func (c *columns) advisory(queue []byte) (keys []int64, exclusive []bool) {
	of := map[int64]bool{}
	for name, alone := range c.locks {
		h := fnv.New64a()
		h.Write(queue)
		h.Write([]byte{0})
		h.Write([]byte(name))
		key := int64(h.Sum64())
		of[key] = of[key] || alone
	}
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		exclusive = append(exclusive, of[key])
	}
	return keys, exclusive
}

func (s *Store) saveRound(ctx context.Context, of counter.Queue, changes []counter.Change, round []int,
	versions []int64) error {
	queue, c := s.base.Key(of), columnsOf(changes, round)
	keys, exclusive := c.advisory(queue)
	for _, names := range []*[][]byte{&c.changed, &c.compared} {
		slices.SortFunc(*names, bytes.Compare)
		*names = slices.CompactFunc(*names, bytes.Equal)
	}
	version := rand.Int64N(1<<62) + 1 //nolint:gosec // no secret
	args := []any{queue, version, c.change, c.changed, c.compared, c.docChange, c.docAct, c.docName, c.docVersion,
		c.docData, c.docExpires, c.group}
	sql := strings.Builder{}
	sql.WriteString(saveSQL)
	parameters := func(part string, values ...any) {
		for i, v := range values {
			args = append(args, v)
			part = strings.ReplaceAll(part, "$"+string(rune('a'+i)), "$"+strconv.Itoa(len(args)))
		}
		sql.WriteString(part)
	}
	if c.hasRemoved {
		sql.WriteString(removedSQL)
	}
	if c.addChange != nil {
		parameters(addSQL, c.addChange, c.addDoc, c.addField, c.addBy, c.addExpires)
	}
	if c.setChange != nil {
		parameters(memberSQL, c.setChange, c.setSet, c.setName, c.setScore, c.setGone, c.setExpires)
	}
	if slices.Contains(c.setGone, true) {
		sql.WriteString(goneSQL)
	}
	if slices.Contains(c.setGone, false) {
		sql.WriteString(movedSQL)
	}
	sql.WriteString(" SELECT change FROM ok")
	var made []int32
	save := &pgx.QueuedQuery{SQL: sql.String(), Arguments: args}
	save.Query(func(rows pgx.Rows) (err error) {
		made, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	err := s.run(ctx, &pgx.QueuedQuery{SQL: lockSQL, Arguments: []any{keys, exclusive}}, save)
	if err != nil {
		return err
	}
	for _, n := range made {
		versions[n] = version
	}
	return nil
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

// lockSQL takes advisory locks in the order of the keys. Before that, it divides by zero if a pooler has undone
// sessionSQL.
const lockSQL = `SELECT
	CASE WHEN alone THEN pg_advisory_xact_lock(k)::text ELSE pg_advisory_xact_lock_shared(k)::text END
	FROM unnest($1::bigint[], $2::boolean[]) AS t (k, alone) WHERE CASE
	WHEN current_setting('transaction_isolation') = 'read committed' AND current_setting('enable_seqscan') = 'off'
	THEN true ELSE 1 / (k - k) = 0 END`

// saveSQL decides which changes are made, in ok, and writes their documents. It locks them in the order of $4. ok
// counts them, so that they are locked before members are, also if no version is compared. A document that exists is
// written by an INSERT that always conflicts: a join of an UPDATE may read the whole queue.
const saveSQL = `WITH clock AS MATERIALIZED (SELECT ` + micros + ` / 1000 AS now),
doc AS MATERIALIZED (SELECT * FROM unnest($6::int[], $7::int[], $8::bytea[], $9::bigint[], $10::bytea[], $11::bigint[])
	AS t (change, act, name, version, data, expires)),
locked AS MATERIALIZED (SELECT d.* FROM unnest($4::bytea[]) AS t (name), LATERAL (SELECT name, version, expires
	FROM strikes_doc WHERE queue = $1 AND name = t.name FOR UPDATE) d),
seen AS MATERIALIZED (SELECT s.name, s.version FROM (SELECT * FROM locked UNION ALL
	SELECT d.* FROM unnest($5::bytea[]) AS t (name), LATERAL (SELECT name, version, expires
	FROM strikes_doc WHERE queue = $1 AND name = t.name OFFSET 0) d) s, clock
	WHERE s.expires = 0 OR s.expires > clock.now),
stale AS MATERIALIZED (SELECT doc.change FROM doc LEFT JOIN seen USING (name)
	WHERE doc.act <> 2 AND doc.version <> coalesce(seen.version, 0)),
ok AS MATERIALIZED (SELECT change FROM unnest($3::int[], $12::int[]) AS t (change, "group")
	WHERE (SELECT count(*) FROM locked) >= 0 AND change NOT IN (SELECT change FROM stale)
		AND "group" NOT IN (SELECT change FROM stale)),
written AS MATERIALIZED (SELECT doc.* FROM doc JOIN ok USING (change) WHERE doc.act > 0),
updated AS (INSERT INTO strikes_doc (queue, name, data, version, expires)
	SELECT $1, w.name, w.data, $2, w.expires FROM written w JOIN locked USING (name) WHERE w.data <> ''
	ON CONFLICT (queue, name) DO UPDATE SET data = excluded.data, version = $2, expires = excluded.expires, sums = '{}'),
inserted AS (INSERT INTO strikes_doc (queue, name, data, version, expires)
	SELECT $1, w.name, w.data, $2, w.expires FROM written w
	WHERE w.data <> '' AND NOT EXISTS (SELECT FROM locked l WHERE l.name = w.name) ORDER BY w.name)`

const removedSQL = `,
removed AS (DELETE FROM strikes_doc d USING written w WHERE d.queue = $1 AND d.name = w.name AND w.data = '')`

// addSQL adds to the sums of documents. One that expired begins again. The advisory locks keep others from inserting
// the same document.
const addSQL = `,
added AS MATERIALIZED (SELECT doc, jsonb_object_agg(field, by) AS sums, max(expires) AS expires FROM
	(SELECT t.doc, t.field, sum(t.by)::bigint AS by, max(t.expires) AS expires
	FROM unnest($a::int[], $b::bytea[], $c::text[], $d::bigint[], $e::bigint[]) AS t (change, doc, field, by, expires)
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

const memberSQL = `,
member AS MATERIALIZED (SELECT t.* FROM
	unnest($a::int[], $b::bytea[], $c::bytea[], $d::bigint[], $e::boolean[], $f::bigint[])
	AS t (change, "set", name, score, gone, expires) JOIN ok USING (change))`

// goneSQL deletes where the queue is equal to a column of leaving. With $1 in its place, PostgreSQL would read all
// members of the queue while the table has no statistics.
const goneSQL = `,
leaving AS MATERIALIZED (SELECT m.* FROM (SELECT "set", name FROM member WHERE gone ORDER BY "set", name) e,
	LATERAL (SELECT queue, "set", name FROM strikes_member WHERE queue = $1 AND "set" = e."set" AND name = e.name
	FOR UPDATE) m),
left_it AS (DELETE FROM strikes_member m USING leaving e
	WHERE m.queue = e.queue AND m."set" = e."set" AND m.name = e.name)`

const movedSQL = `,
moved AS (INSERT INTO strikes_member (queue, "set", name, score, expires)
	SELECT $1, "set", name, score, expires FROM member WHERE NOT gone ORDER BY "set", name
	ON CONFLICT (queue, "set", name) DO UPDATE SET score = excluded.score,
	expires = CASE WHEN excluded.expires = 0 THEN 0 ELSE greatest(strikes_member.expires, excluded.expires) END)`
