package mysql

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// emptyFor is how long an empty row stays.
const emptyFor = 24 * time.Hour

// The bounds of one transaction, if it has several changes. Escaped data may be twice as long, and a server may have a
// max_allowed_packet of 1 MiB.
const (
	maxDocs  = readBatch
	maxBytes = 256 << 10 // of data
)

// plan is the part of a Save that one transaction makes.
type plan struct {
	queue   []byte
	changes []counter.Change
	rows    map[string]*row // of documents, by name
	writer  int64           // begins the versions of the documents that this Save writes
	now     int64           // milliseconds by the server's clock, when all rows were locked
	members []counter.Member
}

// row is a document, first as it was locked and then as the changes leave it.
type row struct {
	alone    bool // the lock is exclusive
	added    bool // the data is needed, for a sum
	there    bool // there was a row, perhaps an empty one
	compared bool // a change depends on it
	written  bool

	version, expires int64 // version 0: it is absent
	data             string
}

// planOf plans the first of some changes.
func planOf(queue []byte, changes []counter.Change) *plan {
	p := &plan{queue: queue, rows: map[string]*row{}, writer: rand.Int64N(1<<62) + 1} //nolint:gosec // no secret
	size := 0
	for _, c := range changes {
		for _, d := range c.Docs {
			size += len(d.Data)
		}
		if len(p.rows) > 0 && (len(p.rows)+len(c.Docs)+len(c.Same)+len(c.Add) > maxDocs || size > maxBytes) {
			break
		}
		p.changes = append(p.changes, c)
		for _, d := range c.Same {
			p.row(d.Name)
		}
		for _, d := range c.Docs {
			p.row(d.Name).alone = true
		}
		for _, sum := range c.Add {
			r := p.row(sum.Doc)
			r.alone, r.added = true, true
		}
	}
	return p
}

func (p *plan) row(name string) *row {
	if p.rows[name] == nil {
		p.rows[name] = &row{}
	}
	return p.rows[name]
}

// names returns the names of some documents in their order.
func (p *plan) names(which func(*row) bool) (names []string) {
	for name, r := range p.rows {
		if which(r) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// decide makes the changes of the plan whose documents are as they were loaded. It returns the version of the documents
// that each wrote; 0: it was not made.
func (p *plan) decide() (versions []int64) {
	for _, r := range p.rows {
		if r.expires > 0 && r.expires <= p.now {
			r.version, r.expires, r.data = 0, 0, ""
		}
	}
	for i, c := range p.changes {
		version := p.writer + int64(i)
		if slices.ContainsFunc(c.Docs, p.differs) || slices.ContainsFunc(c.Same, p.differs) {
			version = 0
		} else {
			p.make(c, version)
		}
		versions = append(versions, version)
	}
	return versions
}

func (p *plan) differs(d counter.Doc) bool {
	version, err := strconv.ParseInt(cmp.Or(d.Version, "0"), 10, 64)
	return !d.Any && (err != nil || version != p.rows[d.Name].version)
}

func (p *plan) make(c counter.Change, version int64) {
	for _, d := range c.Same {
		p.rows[d.Name].compared = true
	}
	for _, d := range c.Docs {
		r := p.rows[d.Name]
		r.compared = r.compared || !d.Any
		r.write(version, d.Data, sqlstore.Millis(d.Expires))
	}
	for _, sum := range c.Add {
		r, expires := p.rows[sum.Doc], sqlstore.Millis(sum.Expires)
		if r.version > 0 {
			if r.expires == 0 || expires == 0 {
				expires = 0
			} else {
				expires = max(expires, r.expires)
			}
		}
		r.write(version, counter.AddTo(r.data, sum), expires)
	}
	for _, m := range c.Sets {
		p.members = append(p.members, sqlstore.Row(m))
	}
}

func (r *row) write(version int64, data string, expires int64) {
	if data == "" {
		version = 0
	}
	r.written, r.version, r.data, r.expires = true, version, data, expires
}

// missing ends the transaction, and inserts an empty row for each document that must stay absent and has none. It is
// nil if all have one.
func (p *plan) missing() *query {
	names := p.names(func(r *row) bool { return r.compared && !r.there && r.version == 0 })
	if len(names) == 0 {
		return nil
	}
	q := new(query).add("ROLLBACK; INSERT INTO strikes_doc (queue, name, data, version, expires) VALUES ")
	rows := make([][]any, len(names))
	for i, name := range names {
		rows[i] = []any{p.queue, []byte(name), []byte{}, 0, p.now + emptyFor.Milliseconds()}
	}
	return q.rows(rows).add(" ON DUPLICATE KEY UPDATE version = version")
}

// writes are the statements that write the documents and members as the plan decided. Each hint keeps the server from
// reading, and so from locking, all rows of a small table.
func (p *plan) writes() *query {
	q := new(query)
	const insert = "INSERT INTO strikes_doc (queue, name, data, version, expires) VALUES "
	for there, update := range map[bool]string{false: "; ", true: " ON DUPLICATE KEY UPDATE data = VALUES(data), " +
		"expires = VALUES(expires), version = VALUES(version); "} {
		var rows [][]any
		for _, name := range p.names(func(r *row) bool { return r.written && r.version > 0 && r.there == there }) {
			r := p.rows[name]
			rows = append(rows, []any{p.queue, []byte(name), []byte(r.data), r.version, r.expires})
		}
		if len(rows) > 0 {
			q.add(insert).rows(rows).add(update)
		}
	}
	if gone := p.names(func(r *row) bool { return r.written && r.version == 0 && r.there }); len(gone) > 0 {
		q.add("DELETE d FROM strikes_doc d FORCE INDEX (PRIMARY) WHERE queue = ? AND name", p.queue).in(gone).add("; ")
	}
	p.writeMembers(q)
	return q
}

func (p *plan) writeMembers(q *query) {
	var moved [][]any
	gone := map[string][]string{}
	slices.SortFunc(p.members, func(a, b counter.Member) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range p.members {
		if m.Gone {
			gone[m.Set] = append(gone[m.Set], m.Name)
		} else {
			moved = append(moved, []any{p.queue, []byte(m.Set), []byte(m.Name), m.Score, sqlstore.Millis(m.Expires)})
		}
	}
	for _, set := range slices.Sorted(maps.Keys(gone)) {
		q.add("DELETE m FROM strikes_member m FORCE INDEX (PRIMARY) WHERE queue = ? AND set_name = ? AND name", p.queue,
			[]byte(set)).in(gone[set]).add("; ")
	}
	if len(moved) > 0 {
		q.add("INSERT INTO strikes_member (queue, set_name, name, score, expires) VALUES ").rows(moved).add(
			" ON DUPLICATE KEY UPDATE score = VALUES(score), " +
				"expires = if(VALUES(expires) = 0, 0, greatest(expires, VALUES(expires))); ")
	}
}
