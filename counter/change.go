package counter

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// text loads one document.
func (c *client) text(ctx context.Context, of Queue, name string) (now time.Time, text string, err error) {
	now, docs, err := c.store.Load(ctx, of, name)
	if err != nil {
		return now, "", err
	}
	return now, docs[0].Data, docs[0].Err
}

// fields loads one document of fields.
func (c *client) fields(ctx context.Context, of Queue, name string) (map[string]string, error) {
	_, text, err := c.text(ctx, of, name)
	return decodeFields(text), err
}

// note saves a document of one text, whatever it was before; an empty text removes it.
func (c *client) note(ctx context.Context, of Queue, name, text string, kept time.Duration) error {
	return c.insist(ctx, of, nil, func(now time.Time, _ []Doc) (Change, error) {
		return Change{Docs: []Doc{{Name: name, Data: text, Any: true, Expires: now.Add(kept)}}}, nil
	})
}

// insist changes documents of a queue. It loads them, lets plan decide, and saves. If they changed meanwhile it begins
// again, until ctx ends. An empty Change saves nothing.
func (c *client) insist(ctx context.Context, of Queue, names []string,
	plan func(now time.Time, docs []Doc) (Change, error)) error {
	for {
		now, docs, err := c.store.Load(ctx, of, names...)
		if err != nil {
			return err
		}
		change, err := plan(now, docs)
		if err != nil || change.isEmpty() {
			return err
		}
		if saved, err := c.store.Save(ctx, of, change); err != nil || saved {
			return err
		}
	}
}

// rule is a function of package rules with its arguments.
type rule func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration)

// taking is a step of one message on its way through Load and Save.
type taking struct {
	message Message
	record  string // the name of its document
	rule    rule
	fresh   bool // the message was not delivered before, and probably has no record
	sure    bool // it needs a Load
	reply   Reply
	err     error // of this step alone

	recalled bool // the documents with which it was decided may be old
}

func newTaking(m Message, by rule) *taking {
	return &taking{message: m, record: docRecord(member(m.ID, m.Generation)), rule: by}
}

// change takes a step of one message through Load and Save.
func (c *client) change(ctx context.Context, doing string, m Message, take rule) (Reply, error) {
	replies, err := c.changeAll(ctx, doing, Queue{m.VHost, m.Queue}, []Message{m}, take)
	if err != nil {
		return Reply{}, err
	}
	return replies[0], nil
}

// changeAll takes the same step of messages of one queue. Each is taken by itself; those whose documents changed
// meanwhile are taken again.
func (c *client) changeAll(ctx context.Context, doing string, of Queue, messages []Message, take rule) ([]Reply,
	error) {
	all := make([]*taking, len(messages))
	for i, m := range messages {
		if err := checkAttempt(Attempt{Message: m, Token: byOperator}); err != nil {
			return nil, err
		}
		all[i] = newTaking(m, take)
		all[i].sure = true
	}
	var err error
	for open := all; len(open) > 0 && err == nil; {
		open, err = c.takeSome(ctx, of, open)
	}
	replies := make([]Reply, len(all))
	for i, t := range all {
		if err = cmp.Or(err, t.err); err != nil {
			return nil, failed(doing, of.Name, err)
		}
		replies[i] = t.reply
	}
	return replies, nil
}

// takeSome takes steps of messages of one queue with one Save, and one Load unless their documents are recent. It
// returns those that are to be taken again because their documents may have changed. Each step sees the queue as the
// step before left it. If the document of one step has changed, all are taken again. That is rare, because a message is
// in one process at a time.
func (c *client) takeSome(ctx context.Context, of Queue, some []*taking) (again []*taking, err error) {
	var taken []*taking
	for _, t := range some {
		if slices.ContainsFunc(taken, func(o *taking) bool { return o.record == t.record }) {
			again = append(again, t)
		} else {
			taken = append(taken, t)
		}
	}
	now, docs, err := c.recall(ctx, of, taken)
	if err != nil {
		return nil, err
	}
	about, records := docs[:len(aboutQueue)], docs[len(aboutQueue):]
	var all Change
	var in []*taking // the steps of all
	size := 0
	for i, t := range taken {
		if size > maxSaved {
			again = append(again, t)
			continue
		}
		change, err := c.decide(about, records[i], t, now)
		if err != nil || change.isEmpty() {
			if t.err = err; t.recalled {
				t.err, t.sure, again = nil, true, append(again, t)
			}
			continue
		}
		see(about, change)
		all, in, size = join(all, change), append(in, t), size+len(change.Docs[0].Data)
	}
	if len(in) == 0 {
		return again, nil
	}
	saved, err := c.store.Save(ctx, of, all)
	if err != nil {
		return nil, err
	}
	if c.recent.note(of, all, in, saved); !saved {
		for _, t := range in {
			t.sure = true
		}
		again = append(again, in...)
	}
	return again, nil
}

// maxSaved is in bytes of records. Once one Save has more, it takes no further record. A MySQL server may have a
// max_allowed_packet of 1 MiB, and escaped data may be twice as long.
const maxSaved = 256 << 10

// decide lets the rule of a step decide, and returns its changes: first of the record, then of the queue.
func (c *client) decide(about []Doc, record Doc, t *taking, now time.Time) (Change, error) {
	before, err := c.readQueue(about)
	if err != nil {
		return Change{}, err
	}
	r, err := c.readRecord(record, t.message, now)
	if err != nil {
		return Change{}, err
	}
	after, was := before, r
	reply, keep := t.rule(&r, &after, now)
	t.reply = reply
	change := c.write(about, before, after, now)
	switch {
	case keep > 0:
		now = now.Truncate(time.Millisecond)
		r.Listed = was.Listed
		change.Sets = place(&r, was, after.Tombstones.Count > before.Tombstones.Count, c.opts.TTL, keep, now)
		record.Data, record.Expires = rules.Encode(r), now.Add(keep)
	case len(change.Docs) == 0: // nor has the breaker learned of a success
		return Change{}, nil
	}
	change.Docs = append([]Doc{record}, change.Docs...)
	return change, nil
}

// see changes the documents of a queue as a change will.
func see(about []Doc, by Change) {
	for i := range about {
		for _, d := range by.Docs {
			if d.Name == about[i].Name {
				about[i] = d
			}
		}
		for _, s := range by.Add {
			if s.Doc == about[i].Name {
				about[i].Data = AddTo(about[i].Data, s)
			}
		}
	}
}

// join makes one change of two. The second saw the documents as the first had left them. join may write to the slices
// of the first.
func join(a, b Change) Change {
	for _, d := range b.Docs {
		if i := slices.IndexFunc(a.Docs, d.isNamed); i >= 0 {
			a.Docs[i] = d
		} else {
			a.Docs = append(a.Docs, d)
		}
	}
	for _, s := range b.Add {
		if i := slices.IndexFunc(a.Docs, Doc{Name: s.Doc}.isNamed); i >= 0 {
			a.Docs[i].Data = AddTo(a.Docs[i].Data, s)
		} else {
			a.Add = append(a.Add, s)
		}
	}
	for _, d := range b.Same {
		if !slices.ContainsFunc(a.Same, d.isNamed) {
			a.Same = append(a.Same, d)
		}
	}
	a.Same = slices.DeleteFunc(a.Same, func(d Doc) bool { return slices.ContainsFunc(a.Docs, d.isNamed) })
	a.Sets = append(a.Sets, b.Sets...)
	return a
}

func (d Doc) isNamed(as Doc) bool { return d.Name == as.Name }

// readRecord reads the record of a message; one without TTL if it has none.
func (c *client) readRecord(d Doc, m Message, now time.Time) (Record, error) {
	if d.Err != nil {
		return Record{}, d.Err
	}
	if d.Data == "" {
		return Record{Message: m}, nil
	}
	r, ok := rules.Decode(d.Data)
	if !ok {
		return Record{}, c.foreignDoc(Queue{m.VHost, m.Queue}, d.Name, noRecord)
	}
	r.Message, r.TTL = m, c.opts.TTL
	if !d.Expires.IsZero() {
		r.TTL = max(d.Expires.Sub(now.Truncate(time.Millisecond)), time.Millisecond)
	}
	return r, nil
}

// readQueue reads the documents of aboutQueue. With an error it returns those that it could read.
func (c *client) readQueue(about []Doc) (rules.Queue, error) {
	q := rules.Queue{TTL: c.opts.TTL, Tombstones: tombstonesOf(decodeFields(about[1].Data))}
	q.Breaker, _ = rules.DecodeBreaker(about[2].Data)
	q.Override, _ = overrideOf(decodeFields(about[0].Data)) // steps ignore one that cannot be read
	return q, cmp.Or(about[0].Err, about[1].Err, about[2].Err)
}

// write returns the changes that a step made to its queue.
func (c *client) write(about []Doc, before, after rules.Queue, now time.Time) Change {
	change := Change{Same: []Doc{about[0]}}
	if breaker := about[2]; after.Judged {
		if text := rules.EncodeBreaker(after.Breaker); text != rules.EncodeBreaker(before.Breaker) {
			breaker.Data, breaker.Expires = text, now.Truncate(time.Millisecond).Add(c.opts.TTL)
			change.Docs = append(change.Docs, breaker)
		} else {
			change.Same = append(change.Same, breaker)
		}
	}
	b, a := before.Tombstones, after.Tombstones
	expires := now.Truncate(time.Millisecond).Add(c.opts.TTL).Add(c.opts.TTL)
	if !a.Since.Equal(b.Since) { // it is the first, and no other may be the first too
		dead := about[1]
		dead.Data, dead.Expires = encodeFields(map[string]string{"count": decimal(a.Count), "removed": decimal(a.Removed),
			"since": decimal(a.Since.UnixMilli())}), expires
		change.Docs = append(change.Docs, dead)
		return change
	}
	for field, by := range map[string]int64{"count": a.Count - b.Count, "removed": a.Removed - b.Removed} {
		if by != 0 {
			change.Add = append(change.Add, Sum{Doc: docTombstones, Field: field, By: by, Expires: expires})
		}
	}
	return change
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// moveAgain is how long a record stays where it is in the index before a step moves it.
const moveAgain = time.Second

// place puts a record into the set where it belongs, as save in scripts/record.lua does. The index has the records that
// an operator may want to see, dead the tombstones whose dead letters were not removed. was is the record before the
// step; died: the step wrote the tombstone.
func place(r *Record, was Record, died bool, ttl, keep time.Duration, now time.Time) (moves []Member) {
	name, set, every := member(r.ID, r.Generation), "", moveAgain
	expires := now.Add(keep).Add(keep) // twice keep may overflow
	switch {
	case r.State == StateDeadLetter:
		if every = ttl / 8; died {
			every = 0
		}
		if r.Removed.IsZero() {
			set = setDead
		}
	case r.State == StateSkip, !r.IsOver() && (r.Counted() > 0 || r.OpenToken != ""):
		set = setIndex
	}
	former := ""
	switch {
	case !was.Listed.IsZero() && was.State == StateDeadLetter:
		former = setDead
	case !was.Listed.IsZero(), was.TTL == 0: // an expired record may be in it
		former = setIndex
	}
	if former != "" && former != set {
		moves = append(moves, Member{Set: former, Name: name, Gone: true})
		r.Listed = time.Time{}
	}
	if set != "" && (r.Listed.IsZero() || now.Sub(r.Listed).Abs() >= every || keep > ttl) {
		moves = append(moves, Member{Set: set, Name: name, Score: now.Add(keep).UnixMilli(), Expires: expires})
		if set == setIndex || died || r.Listed.IsZero() {
			r.Listed = now
		}
	}
	return moves
}
