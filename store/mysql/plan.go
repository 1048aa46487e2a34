package mysql

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// emptyFor is how long an empty row stays.
const emptyFor = 24 * time.Hour

// plan is a change on its way through its transaction.
type plan struct {
	queue   []byte
	change  counter.Change
	rows    map[string]*row // of documents, by name
	version int64           // of the documents that this Save writes
	now     int64           // milliseconds by the server's clock, when all rows were locked
}

// row is a document, first as it was locked and then as the change leaves it.
type row struct {
	alone    bool // the lock is exclusive
	added    bool // the data is needed, for a sum
	there    bool // there was a row, perhaps an empty one
	compared bool // the change depends on it
	written  bool

	version, expires int64 // version 0: it is absent
	data             string
}

func planOf(queue []byte, c counter.Change) *plan {
	p := &plan{queue: queue, change: c, rows: map[string]*row{}, version: sqlstore.NewVersion()}
	for _, d := range c.Same {
		p.row(d.Name).compared = true
	}
	for _, d := range c.Docs {
		r := p.row(d.Name)
		r.alone, r.compared = true, r.compared || !d.Any
	}
	for _, sum := range c.Add {
		r := p.row(sum.Doc)
		r.alone, r.added = true, true
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

// decide makes the change if its documents are as they were loaded. It reports whether they are.
func (p *plan) decide() bool {
	for _, r := range p.rows {
		if r.expires > 0 && r.expires <= p.now {
			r.version, r.expires, r.data = 0, 0, ""
		}
	}
	differs := func(d counter.Doc) bool { return !d.Any && sqlstore.VersionOf(d) != p.rows[d.Name].version }
	if slices.ContainsFunc(p.change.Docs, differs) || slices.ContainsFunc(p.change.Same, differs) {
		return false
	}
	for _, d := range p.change.Docs {
		p.rows[d.Name].write(p.version, d.Data, sqlstore.Millis(d.Expires))
	}
	for _, sum := range p.change.Add {
		r, expires := p.rows[sum.Doc], sqlstore.Millis(sum.Expires)
		if r.version > 0 {
			if r.expires == 0 || expires == 0 {
				expires = 0
			} else {
				expires = max(expires, r.expires)
			}
		}
		r.write(p.version, counter.AddTo(r.data, sum), expires)
	}
	return true
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
	var members []counter.Member
	for _, m := range p.change.Sets {
		members = append(members, sqlstore.Row(m))
	}
	slices.SortFunc(members, func(a, b counter.Member) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Name, b.Name))
	})
	var moved [][]any
	gone := map[string][]string{}
	for _, m := range members {
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
