package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/topology"
)

// maxScanned is how many records a look reads: those that were written last.
const maxScanned = 10_000

// lookTimeout bounds a look. A broker that hangs is out of reach.
const lookTimeout = 10 * time.Second

// standing is how a queue stands at a moment.
type standing struct {
	Time      time.Time   `json:"time"` // by the store
	VHost     string      `json:"vhost"`
	Queue     string      `json:"queue"`
	Ready     int         `json:"ready"`
	Consumers int         `json:"consumers"`
	Unacked   *int        `json:"unacked,omitempty"` // these and the rates: by the management API, up to 5 s old
	Rates     *rates      `json:"rates,omitempty"`
	Limit     *override   `json:"limit,omitempty"`
	Limits    []limitSeen `json:"limits,omitempty"` // of the consumers' own, if they disagree
	Blocking  []blocking  `json:"blocking"`
	Blocked   int         `json:"blocked"` // how many Blocking would be without --limit
	Dead      deadLetters `json:"dead_lettered"`
	Notes     []string    `json:"notes,omitempty"` // what could not be seen

	Undecodable *undecodable `json:"undecodable,omitempty"`
}

// rates are messages a second.
type rates struct {
	In    float64 `json:"in"`
	Out   float64 `json:"out"`
	Acked float64 `json:"acked"`
}

// looker looks at a queue, as often as it is asked to.
type looker struct {
	broker *connect.Broker
	store  *counter.Counter
	conn   *amqp.Connection
	vhost  string
	queue  string
	dead   string        // the dead-letter queue; empty: to be found
	api    inspect.Need // the management API, if there is one
	tried  bool          // its usual place
	denied string        // why there is none

	route     []inspect.Finding // what was wrong with the dead-letter route
	routeSeen time.Time          // when
	most      int                // messages to tell of; 0: all
}

func (l *looker) close() {
	if l.conn != nil {
		connect.Close(l.conn)
	}
}

// look asks everybody. After an error nothing is known; a look later may succeed.
func (l *looker) look(ctx context.Context) (standing, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s := standing{VHost: l.vhost, Queue: l.queue, Blocking: []blocking{}}
	if err := l.askBroker(ctx, &s); err != nil {
		return s, err
	}
	if err := l.askStore(ctx, &s); err != nil {
		return s, fmt.Errorf("store: %w", err)
	}
	switch {
	case l.api.Management != "":
		l.askManagement(ctx, &s)
	case l.denied != "":
		s.Notes = append(s.Notes, l.denied)
	}
	s.Dead.judge()
	l.askRoute(ctx, &s)
	return s, nil
}

func (l *looker) askBroker(ctx context.Context, s *standing) error {
	if l.conn == nil || l.conn.IsClosed() {
		conn, err := l.broker.Dial(ctx)
		if err != nil {
			return err
		}
		l.conn = conn
	}
	conn := l.conn
	release := context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) }) // a request knows no context
	defer release()
	if err := l.findManagement(ctx); err != nil {
		return err
	}
	q, found, err := l.counts(ctx, l.queue)
	if err != nil {
		return l.broken(err)
	}
	if !found {
		return fmt.Errorf("%w: %q in virtual host %q", topology.ErrQueueNotFound, l.queue, l.vhost)
	}
	s.Ready, s.Consumers = q.Messages, q.Consumers
	if err := l.findDead(ctx, s); err != nil {
		return l.broken(err)
	}
	q, found, err = l.counts(ctx, s.Dead.Queue)
	var refused *amqp.Error
	switch {
	case errors.As(err, &refused) && refused.Code == amqp.AccessRefused:
		s.Notes = append(s.Notes, fmt.Sprintf("cannot count the messages in %s: the broker's user needs the read permission on it, or the management API: %v", term.Shown(s.Dead.Queue), err))
	case err != nil:
		return l.broken(err)
	case found:
		s.Dead.Holds, s.Dead.consumers = &q.Messages, q.Consumers
	}
	return nil
}

// findManagement tries once the usual place of the management API, unless one was given.
func (l *looker) findManagement(ctx context.Context) error {
	if l.tried || l.api.Management != "" {
		return nil
	}
	l.tried = true
	var err error
	if l.api, err = l.broker.Management(ctx, l.conn, l.api); err != nil {
		l.denied = unmanaged(err)
	}
	return ctx.Err()
}

// findTimeout bounds the search for the dead-letter queue. It is short of lookTimeout.
const findTimeout = 4 * time.Second

// findDead finds the dead-letter queue, unless it is named. It keeps a certain answer.
func (l *looker) findDead(ctx context.Context, s *standing) error {
	if l.dead != "" {
		s.Dead.Queue = l.dead
		return nil
	}
	brief, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	need := l.api
	need.Queue = l.queue
	at, err := findDeadLetterQueue(brief, l.conn, need)
	switch {
	case errors.Is(brief.Err(), context.DeadlineExceeded) && ctx.Err() == nil:
		at = deadLetterQueue{l.queue + ".dlq", "the management API does not show its policy yet"}
	case err != nil:
		return err
	}
	s.Dead.Queue = at.name
	if at.guess == "" {
		l.dead = at.name
	} else {
		s.Notes = append(s.Notes, at.guessed(l.queue))
	}
	return nil
}

// counts returns the ready messages and the consumers of a queue, if it exists. It asks the management API if the user may not
// ask over AMQP.
func (l *looker) counts(ctx context.Context, queue string) (amqp.Queue, bool, error) {
	q, found, err := passively(l.conn, queue)
	var refused *amqp.Error
	if l.api.Management == "" || !errors.As(err, &refused) || refused.Code != amqp.AccessRefused {
		return q, found, err
	}
	need := l.api
	need.Queue = queue
	load, apiErr := doctor.Measure(ctx, l.conn, need)
	if errors.Is(apiErr, topology.ErrQueueNotFound) {
		return q, false, nil
	}
	if apiErr != nil {
		return q, false, fmt.Errorf("%w; %w", err, apiErr)
	}
	return amqp.Queue{Name: queue, Messages: load.Ready, Consumers: load.Consumers}, true, nil
}

// broken tells a connection that was lost from an answer of the broker's.
func (l *looker) broken(err error) error {
	if l.conn.IsClosed() || errors.Is(err, amqp.ErrClosed) {
		return l.broker.Explain(err)
	}
	return err
}

// passively asks for a queue, if there is one of that name.
func passively(conn *amqp.Connection, queue string) (q amqp.Queue, found bool, err error) {
	if queueinfo.CheckName(queue) != nil { // what is derived from a long name may be too long
		return q, false, nil
	}
	ch, err := conn.Channel()
	if err != nil {
		return q, false, err
	}
	defer ch.Close()
	q, err = queueinfo.Passive(ch, queue)
	var answer *amqp.Error
	if errors.As(err, &answer) && answer.Code == amqp.NotFound {
		return q, false, nil
	}
	return q, err == nil, err
}

func (l *looker) askStore(ctx context.Context, s *standing) error {
	var denied *counter.StoreError
	var err error
	switch s.Time, err = l.store.Admin().Now(ctx); {
	case errors.As(err, &denied) && denied.Fault == counter.FaultDenied:
		s.Time = time.Now().UTC()
		s.Notes = append(s.Notes, "the store's clock may not be read: times are told by this machine's")
	case err != nil:
		return err
	}
	set, err := l.store.Admin().Limit(ctx, l.vhost, l.queue)
	switch {
	case errors.Is(err, counter.ErrOverride):
		s.Notes = append(s.Notes, err.Error())
	case err != nil:
		return err
	case set != nil:
		s.Limit = &override{VHost: l.vhost, Queue: l.queue, MaxRetries: set.MaxRetries, note: noteJSON(set.Note)}
	}
	if s.Undecodable, err = undecodableIn(ctx, l.store, l.vhost, l.queue); err != nil {
		return err
	}
	buried, err := l.store.Admin().Tombstones(ctx, l.vhost, l.queue)
	if err != nil {
		return err
	}
	s.Dead.Count, s.Dead.Replayed, s.Dead.Since = buried.Count, buried.Removed, buried.Since
	records, err := l.records(ctx, s)
	if err != nil {
		return err
	}
	reasons := tally{}
	for _, r := range records {
		switch {
		case blocks(r):
			s.Blocking = append(s.Blocking, blockingOf(r, set, s))
		case r.State == counter.StateForeign:
			s.Notes = append(s.Notes, "something else than a record is at a record's key, whose message is held: strikes counter list says what to do")
		case r.State == counter.StateDeadLetter:
			reasons[term.Brief(r.Reason, 200)]++
			if s.Time.Sub(r.LastTime) < arriving {
				s.Dead.recent++
			}
		}
	}
	s.Dead.Reasons, s.Dead.Others = reasons.most(maxReasons)
	s.Dead.explain()
	if set == nil {
		s.Limits = limitsIn(maps.Values(records), s.Time)
	}
	slices.SortFunc(s.Blocking, byLength)
	if s.Blocked = len(s.Blocking); l.most > 0 {
		s.Blocking = s.Blocking[:min(l.most, s.Blocked)]
	}
	return nil
}

// records reads what was written last. A record that is written while the others are read moves to the front and is missed
// there, so the front is read again.
func (l *looker) records(ctx context.Context, s *standing) (map[counter.Message]counter.Record, error) {
	all := map[counter.Message]counter.Record{}
	for _, most := range []int{maxScanned, frontScanned} {
		n := 0
		for r, err := range l.store.Admin().List(ctx, l.vhost, l.queue) {
			if err != nil {
				return nil, err
			}
			all[r.Message] = r
			if n++; n == most {
				break
			}
		}
		if n == maxScanned {
			s.Notes = append(s.Notes, fmt.Sprintf("there are more than %d records: only those written last were looked at", maxScanned))
		}
		if n <= frontScanned {
			break
		}
	}
	return all, nil
}

// frontScanned is what List reads in one round trip.
const frontScanned = 200

// askManagement asks for what AMQP does not tell. That the API does not answer hides nothing else.
func (l *looker) askManagement(ctx context.Context, s *standing) {
	of, dead := l.api, l.api
	of.Queue, dead.Queue = l.queue, s.Dead.Queue
	load, err := doctor.Measure(ctx, l.conn, of)
	if err != nil {
		s.Notes = append(s.Notes, "no rates: "+err.Error())
		return
	}
	s.Unacked, s.Rates = &load.Unacked, &rates{load.In, load.Out, load.Acked}
	s.Dead.Waiting, s.Dead.seen = load.DeadLettering, true
	if s.Dead.Holds == nil {
		return
	}
	arrived, err := doctor.Measure(ctx, l.conn, dead)
	if err != nil {
		s.Notes = append(s.Notes, "cannot count what was taken out of "+term.Shown(s.Dead.Queue)+": "+err.Error())
		return
	}
	if s.Dead.consumers > 0 {
		s.Dead.Out = arrived.Unacked
	}
	s.Dead.Taken, s.Dead.moving = &arrived.Taken, arrived.Ready != *s.Dead.Holds || arrived.Unacked > 0
}
