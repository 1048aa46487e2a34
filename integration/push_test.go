package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// publishLanes sends messages m000, m001, … of so many lanes in turn.
func publishLanes(t *testing.T, queue string, n, lanes int) {
	t.Helper()
	msgs := make([]publisher.Message, n)
	for i := range msgs {
		id := fmt.Sprintf("m%03d", i)
		msgs[i] = publisher.Message{Key: queue, Publishing: amqp.Publishing{
			MessageId: id, Body: []byte(id), Headers: amqp.Table{"customer": fmt.Sprint(i % lanes)},
		}}
	}
	publishAll(t, msgs...)
}

// TestPush has endpoints die and come back under load, by kills from outside and by a message that kills each: nothing
// is lost, counts are exact, order is kept.
func TestPush(t *testing.T) {
	t.Parallel()
	const n, kills, limit = 240, 6, 3
	strikes := servertest.Program(t, "cmd/strikes")
	for _, tc := range []struct {
		name  string
		typ   topology.Type
		lanes int // 0: no order
		flags []string
	}{
		{"classic, 8 at a time", topology.Classic, 0, []string{"--concurrency", "8"}},
		{"quorum, ordered", topology.Quorum, 1, []string{"--ordered"}},
		{"classic, lanes", topology.Classic, 4, []string{"--ordered", "--lane-header", "customer", "--concurrency", "4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			queue := declaredAs(t, topology.Spec{Type: tc.typ, SingleActiveConsumer: tc.lanes > 0})
			prefix := uniqueName(t, "strikes")
			c := ofPrefix(t, prefix)
			killer, fails, busy := "m100", []string{"m020", "m021", "m150", "m239"}, []string{"m030", "m031", "m032", "m160"}
			e := endpoint{Kill: []string{killer}, Fail: fails, Busy: busy, Takes: 4 * time.Millisecond}.supervise(t)
			publishLanes(t, queue, n, max(tc.lanes, 1))
			p := push(t, strikes, queue, prefix, e.URL, append(tc.flags, "--max-retries", fmt.Sprint(limit-1))...)
			for range kills {
				before := len(e.ledger(t))
				eventually(t, "the endpoint works", func() bool {
					return len(e.ledger(t)) > before+40 || len(e.handled(t)) == n-1-len(fails)
				})
				e.kill()
			}
			eventually(t, "every message is handled or dead-lettered", func() bool {
				return len(e.handled(t)) == n-1-len(fails) && queueDepth(t, queue+".dlq") == 1+len(fails)
			})
			terminate(t, p.process)
			if left := queueDepth(t, queue); left != 0 {
				t.Errorf("%d messages are left", left)
			}
			for _, id := range append(fails, killer) {
				r := one(t, c, queue, id)
				if r.State != counter.StateDeadLetter || r.Failures != limit || id == killer && crashes(r) != limit {
					t.Errorf("%s: %d failures, %d of them crashes, state %q", id, r.Failures, crashes(r), r.State)
				}
			}
			if r := one(t, c, queue, killer); !strings.Contains(r.Reason, "ended the connection before its response") {
				t.Errorf("%s: the reason is %q", killer, r.Reason)
			}
			runs := map[string]int{}
			for _, post := range e.ledger(t) {
				if post.what == "begin" {
					runs[post.id]++
				}
			}
			// A process that is killed with a connection that it had not accepted yet looks as if an isolated attempt had killed
			// it: that is a crash without a post.
			if runs[killer] < 1 || runs[killer] > limit+1+kills {
				t.Errorf("the killer was posted %d times", runs[killer])
			}
			for _, id := range fails {
				r := one(t, c, queue, id)
				if least := r.Failures - crashes(r); runs[id] < least || runs[id] > limit+kills+1 {
					t.Errorf("%s was posted %d times, with %d failures", id, runs[id], least)
				}
			}
			inOrder(t, e, tc.lanes)
		})
	}
}

// crashes is how many failed attempts ended with the process of the endpoint, or of consume.
func crashes(r counter.Record) (n int) {
	for _, attempt := range r.History {
		if attempt.Cause == counter.CauseCrashed {
			n++
		}
	}
	return n
}

// TestPushKilled kills consume itself whenever it posts a killer, at first beside other messages and then isolated, and
// later lets the killers end the endpoint: the count goes on, and no neighbour pays for it.
func TestPushKilled(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	const n, retries, kills = 120, 4, 8
	strikes := servertest.Program(t, "cmd/strikes")
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		prefix := uniqueName(t, "strikes")
		c := ofPrefix(t, prefix)
		killers := []string{"m010", "m060"}
		gate := filepath.Join(t.TempDir(), "gate")
		need(t, os.WriteFile(gate, nil, 0o600))
		e := endpoint{Kill: killers, Takes: 2 * time.Millisecond, Gate: gate}.supervise(t)
		start := func() *pushing {
			return push(t, strikes, queue, prefix, e.URL, "--max-retries", fmt.Sprint(retries), "--concurrency", "4")
		}
		publishLanes(t, queue, n, 1)
		p, before, isolated := start(), 0, 0
		for range kills {
			eventually(t, "a killer is posted", func() bool { return len(e.posts(t, killers...)) > before })
			if said := p.stderr.String(); strings.Contains(said, "isolate "+killers[0]) || strings.Contains(said,
				"isolate "+killers[1]) {
				isolated++
			}
			p.crash()
			before = len(e.posts(t, killers...))
			p = start()
		}
		if isolated == 0 {
			t.Error("consume was never killed while a killer was isolated")
		}
		need(t, os.Remove(gate))
		e.kill() // a request may still wait
		eventually(t, "every message is handled or dead-lettered", func() bool {
			return len(e.handled(t)) == n-len(killers) && queueDepth(t, queue+".dlq") == len(killers)
		})
		// a kill may have come before the ack of a message that was handled
		api, err := broker.NewAPI(managementURL(t), nil)
		need(t, err)
		conn := dialBroker(t)
		eventually(t, "every message is acked", func() bool {
			load, err := api.Load(t.Context(), conn, queue)
			return err == nil && load.Ready+load.Unacked == 0
		})
		terminate(t, p.process)
		if left := queueDepth(t, queue); left != 0 {
			t.Errorf("%d messages are left", left)
		}
		for _, id := range killers {
			r := one(t, c, queue, id)
			if r.State != counter.StateDeadLetter || crashes(r) != retries+1 || r.Counted() != retries+1 {
				t.Errorf("%s: %d failed attempts, %d of them crashes, state %q", id, r.Counted(), crashes(r), r.State)
			}
			if posts := len(e.posts(t, id)); posts > retries+3 {
				t.Errorf("%s was posted %d times, more than %d", id, posts, retries+3)
			}
		}
	})
}

// inOrder checks that no message of a lane is posted once a later one was.
func inOrder(t *testing.T, e *supervised, lanes int) {
	t.Helper()
	newest := map[int]int{}
	for _, post := range e.ledger(t) {
		if lanes == 0 || post.what != "begin" {
			continue
		}
		var number int
		need(t, errOf(fmt.Sscanf(post.id, "m%d", &number)))
		if lane := number % lanes; number < newest[lane] {
			t.Errorf("%s was posted after m%03d", post.id, newest[lane])
		} else {
			newest[lane] = number
		}
	}
}

func ofPrefix(t *testing.T, prefix string) *counter.Counter {
	t.Helper()
	return counterOn(t, patientURL(t), prefix)
}

// TestPushOutage has no endpoint at first, and none for a while later: nothing is counted. A deploy of consume
// meanwhile changes nothing.
func TestPushOutage(t *testing.T) {
	t.Parallel()
	strikes := servertest.Program(t, "cmd/strikes")
	eachType(t, func(t *testing.T, queue string) {
		prefix := uniqueName(t, "strikes")
		c := ofPrefix(t, prefix)
		publishLanes(t, queue, 30, 1)
		address := freeAddress(t)
		p := push(t, strikes, queue, prefix, "http://"+address, "--max-retries", "1", "--concurrency", "4")
		eventually(t, "attempts that are not counted", func() bool {
			return strings.Count(p.stderr.String(), "\nnot-counted ") > 10
		})
		eventually(t, "status shows them", func() bool {
			cmd := exec.CommandContext(t.Context(), strikes, "status", queue)
			cmd.Env = p.env
			out, err := cmd.Output()
			return err == nil && strings.Contains(string(out), "their attempts are not counted") &&
				strings.Contains(string(out), "is out of reach")
		})
		terminate(t, p.process)
		p = push(t, strikes, queue, prefix, "http://"+address, "--max-retries", "1", "--concurrency", "4")
		eventually(t, "the next process tries", func() bool { return strings.Contains(p.stderr.String(), "not-counted m") })
		s := endpoint{}.superviseAt(t, address)
		eventually(t, "all are handled", func() bool { return len(s.handled(t)) == 30 })
		terminate(t, p.process)
		if dead := queueDepth(t, queue+".dlq"); dead != 0 {
			t.Errorf("%d dead letters", dead)
		}
		for i := range 30 {
			records, err := c.Admin().Get(t.Context(), "/", queue, fmt.Sprintf("m%03d", i))
			if err != nil || len(records) > 0 && records[0].Counted() != 0 {
				t.Errorf("m%03d: %+v, %v", i, records, err)
			}
		}
	})
}
