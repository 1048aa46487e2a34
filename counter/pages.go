package counter

import (
	"context"
	"iter"

	"github.com/strikesmq/strikes/internal/panics"
)

// longPage is how many members a page has at most, unless the first one has more.
const longPage = 1000

// pages yields the members of a set after a place, in its order. Each page is twice as long as the one before, up to
// longPage. It yields an error once and stops.
func (c *client) pages(ctx context.Context, of Queue, set string, after Entry, size int) iter.Seq2[[]Entry, error] {
	return func(yield func([]Entry, error) bool) {
		for more := true; more; size = max(size, min(2*size, longPage)) {
			found, err := c.store.Page(ctx, of, set, after, size)
			more = err == nil && len(found) == size
			if (err != nil || len(found) > 0) && !yield(found, err) {
				return
			}
			if more {
				after = found[size-1]
			}
		}
	}
}

// readPage is a page of a set, with the Data of the record of each entry.
type readPage struct {
	entries []Entry
	texts   []string
	err     error
}

// pagesAhead is how many pages are read while the caller of readPages works on the one before. A database reads two at
// once in less than the time of two.
const pagesAhead = 2

// readPages yields the pages of a set with their records, at most most records in all. A caller that asks for a second
// page probably needs all pages. From then on the next pages are read while the caller works. It yields an error once
// and stops.
func (c *client) readPages(ctx context.Context, of Queue, set string, after Entry, size, most int,
) iter.Seq2[readPage, error] {
	return func(yield func(readPage, error) bool) {
		var reading panics.Group
		// A caller that stops does not cancel ctx: a database client closes the connection of a cancelled call.
		defer func() { _ = reading.Wait() }()
		next, stop := iter.Pull2(c.pages(ctx, of, set, after, size))
		defer stop()
		left := most
		begin := func() <-chan readPage { // nil: there are no more pages
			found, err, more := next()
			if !more || left == 0 {
				return nil
			}
			p := readPage{entries: found[:min(left, len(found))], err: err}
			left -= len(p.entries)
			read := make(chan readPage, 1)
			reading.Go(func() error {
				defer close(read)
				if p.err == nil {
					p.texts, p.err = c.store.Read(ctx, of, set, p.entries)
				}
				read <- p
				return nil
			})
			return read
		}
		var begun []<-chan readPage
		for ahead := 0; ; ahead = pagesAhead {
			for len(begun) <= ahead {
				read := begin()
				if read == nil {
					break
				}
				begun = append(begun, read)
			}
			if len(begun) == 0 {
				return
			}
			p, ok := <-begun[0]
			if !ok || !yield(p, p.err) || p.err != nil { // not ok: its reading panics, and so does Wait
				return
			}
			begun = begun[1:]
		}
	}
}

// namesOf are the names of members, after a prefix.
func namesOf(prefix string, found []Entry) []string {
	names := make([]string, len(found))
	for i, e := range found {
		names[i] = prefix + e.Name
	}
	return names
}
