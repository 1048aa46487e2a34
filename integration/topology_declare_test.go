package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/topology"
)

func topoSpecs(queue string) map[string]topology.Spec {
	return map[string]topology.Spec{
		"quorum":                          {Queue: queue},
		"quorum, single active consumer":  {Queue: queue, SingleActiveConsumer: true},
		"classic":                         {Queue: queue, Type: topology.Classic},
		"classic, single active consumer": {Queue: queue, Type: topology.Classic, SingleActiveConsumer: true},
	}
}

func TestTopologyDeclared(t *testing.T) {
	t.Parallel()
	for name := range topoSpecs("") {
		t.Run(name, func(t *testing.T) {
			b := newTopo(t)
			q, source := b.name(), b.name()
			b.exchange(source, "topic")
			spec := topoSpecs(q)[name]
			b.declare(spec)
			b.declare(spec) // again: nothing changes
			b.bind(q, "order.*", source)
			b.queue(q+".dlq", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 1<<31 - 1}) // refused if it differs

			need := topology.Need{Queue: q, MaxRetries: 3, Ordered: spec.SingleActiveConsumer}
			b.want("over AMQP", need, "warning bindings-unknown")
			need.Management = managementURL(t)
			b.want("with the management API", need)
			if !spec.SingleActiveConsumer {
				need.Ordered = true
				b.want("order", need, "error not-single-active")
			}
			b.rejectsLand(q, source, "order.new")
		})
	}
}

func TestTopologyDeclareMismatch(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.queue(q, amqp.Table{"x-queue-type": "classic", "x-max-length": 10})
	err := topology.Declare(t.Context(), b.conn, topology.Spec{Queue: q})
	for _, w := range []string{
		`topology: declare queue "` + q + `"`, ": it exists with x-queue-type 'classic', not 'quorum'; a queue keeps",
		"nothing was declared",
	} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error: %v", w, err)
		}
	}
	if found, _, err := broker.FindQueue(t.Context(), b.conn, q+".dlq"); found != broker.No || err != nil {
		t.Errorf("a refused Declare leaves a dead-letter queue: %v, %v", found, err)
	}
	other := b.name()
	b.exchange(other+".dlx", "direct")
	err = topology.Declare(t.Context(), b.conn, topology.Spec{Queue: other})
	for _, w := range []string{`declare exchange "` + other + `.dlx"`, "with type 'direct'", "nothing was declared"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error: %v", w, err)
		}
	}
	parts := b.name()
	b.queue(parts+".dlq", amqp.Table{"x-queue-type": "classic"})
	err = topology.Declare(t.Context(), b.conn, topology.Spec{Queue: parts, Partitions: 2})
	if err == nil || !strings.Contains(err.Error(), "nothing was declared") {
		t.Errorf("partitions: %v", err)
	}
	if found, err := broker.FindExchange(t.Context(), b.conn, parts+".dlx"); found != broker.No || err != nil {
		t.Errorf("refused partitions leave a dead-letter exchange: %v, %v", found, err)
	}
}

// TestTopologyDeclareDenied: a user who may not declare is told which permission of the queue is missing. From RabbitMQ
// 4.0 on, such a user may not ask for the partitions of the queue either.
func TestTopologyDeclareDenied(t *testing.T) {
	t.Parallel()
	b := newTopo(t).as("^$", "^$", "^$")
	q := b.name()
	err := topology.Declare(t.Context(), b.conn, topology.Spec{Queue: q})
	for _, w := range []string{"access to exchange '" + q + ".dlx'", "; grant it to the user: ",
		"nothing was declared"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in the error: %v", w, err)
		}
	}
}

func TestTopologyDeclareAtOnce(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := topology.Declare(t.Context(), b.conn, topology.Spec{Queue: q}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.want("afterwards", topology.Need{Queue: q}, "warning bindings-unknown")
}

func TestTopologyNames(t *testing.T) {
	t.Parallel()
	long := "topology." + strings.Repeat("settlement.", 20) + uuid.NewString()[:8]
	for name, want := range map[string][]string{
		long:                          {"warning bindings-unknown"},
		"größe a+b c/%2F 'x'?#":       {"warning bindings-unknown"},
		strings.Repeat("größe.", 20):  {"error arguments-unknown"},
		"but current is none' of 'x'": {"warning bindings-unknown"},
	} {
		b := newTopo(t)
		deleteLater(t, name)
		b.declare(topology.Spec{Queue: name})
		b.want(name+" over AMQP", topology.Need{Queue: name, MaxRetries: 3}, want...)
		b.want(name+" with the management API", topology.Need{Queue: name, MaxRetries: 3, Management: managementURL(t)})
	}
}

// TestTopologyLongestName: the longest name that is not ASCII, of which the broker can say that there is no such queue.
func TestTopologyLongestName(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	for _, partitions := range []int{0, 2} {
		longest := 216 // in the virtual host /
		if partitions > 0 {
			longest -= len(".hash2")
		}
		name := uniqueName(t, strings.Repeat("é", 80))
		name += strings.Repeat("x", longest-len(name))
		spec := topology.Spec{Queue: name, Partitions: partitions}
		declarePartitions(t, spec)
		var refused *topology.FieldError
		spec.Queue += "x"
		if broker.VersionOf(b.conn).Before(4, 0) { // it has no such limit
			declarePartitions(t, spec)
			continue
		}
		if err := topology.Declare(t.Context(), b.conn, spec); !errors.As(err, &refused) || b.conn.IsClosed() ||
			!strings.Contains(err.Error(), fmt.Sprint(longest, " bytes")) {
			t.Error(err)
		}
		if partitions > 0 {
			grown := topology.Spec{Queue: name, Partitions: 12}
			if err := topology.Repartition(t.Context(), b.conn, grown); !errors.As(err, &refused) || b.conn.IsClosed() {
				t.Error("a change to more partitions, whose exchange has a longer name:", err)
			}
		}
	}
}

// Why queueinfo.CheckName refuses these: the one ends the connection, the other is about another queue.
func TestTopologyNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.must(func(ch *amqp.Channel) error {
		made, err := ch.QueueDeclare(q[:9]+"\r\n"+q[9:], false, false, false, false, nil)
		if made.Name != q {
			t.Errorf("a line break made a queue of the name %q, not %q", made.Name, q)
		}
		return err
	})
	err := onChannel(dialer(t), func(ch *amqp.Channel) error {
		return errOf(ch.QueueDeclarePassive(q+"\xff", false, false, false, false, nil))
	})
	var reply *amqp.Error
	if !errors.As(err, &reply) || reply.Code != amqp.FrameError {
		t.Errorf("a name that is not UTF-8: %v", err)
	}
	for _, name := range []string{q[:9] + "\r\n" + q[9:], q + "\xff"} {
		if err := topology.Check(t.Context(), b.conn, topology.Need{Queue: name}); err == nil || b.conn.IsClosed() {
			t.Errorf("%q: %v, and the connection is closed: %v", name, err, b.conn.IsClosed())
		}
	}
}

// A limit of N lets a message be delivered N+1 times.
func TestTopologyDeliveryLimit(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.declare(topology.Spec{Queue: q, DeliveryLimit: 4})
	b.publish("", q, "poison")
	for range 5 {
		b.reject(q, true)
	}
	b.reject(q+".dlq", true)
	b.want("no room", topology.Need{Queue: q, MaxRetries: 1}, "error delivery-limit-low", "warning bindings-unknown")
	b.want("little room", topology.Need{Queue: q, MaxRetries: -1}, "warning delivery-limit-tight",
		"warning bindings-unknown")
}

func TestTopologyNotFound(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	err := topology.Check(t.Context(), b.conn, topology.Need{Queue: q})
	if !errors.Is(err, topology.ErrQueueNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("%q in virtual", q)) ||
		!strings.HasSuffix(err.Error(), "; strikes declare or topology.Declare makes it") {
		t.Errorf("got %v", err)
	}
}

// Reading a queue over AMQP rests on an argument that keeps a redeclaration
// from creating the queue, and is not compared when it exists.
func TestTopologyProbeCreatesNothing(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	for _, args := range []amqp.Table{{}, {"x-queue-type": "classic"}, {"x-queue-type": "quorum"}} {
		q := b.name()
		probe := amqp.Table{"x-max-age": int32(-1)}
		for k, v := range args {
			probe[k] = v
		}
		declare := func(args amqp.Table) error {
			return b.try(func(ch *amqp.Channel) error {
				return errOf(ch.QueueDeclare(q, true, false, false, false, args))
			})
		}
		var reply *amqp.Error
		if err := declare(probe); !errors.As(err, &reply) || reply.Code != amqp.PreconditionFailed {
			t.Errorf("%v, absent: got %v, want 406", args, err)
		}
		err := b.try(func(ch *amqp.Channel) error {
			return errOf(ch.QueueDeclarePassive(q, true, false, false, false, nil))
		})
		if !errors.As(err, &reply) || reply.Code != amqp.NotFound {
			t.Errorf("%v: the probe created a queue: %v", args, err)
		}
		if err := declare(args); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		if err := declare(probe); err != nil {
			t.Errorf("%v, existing: got %v, want no difference", args, err)
		}
	}
}

// A queue that is deleted while it is being read must not come back.
func TestTopologyInspectCreatesNothing(t *testing.T) {
	t.Parallel()
	b, other := newTopo(t), newTopo(t)
	for range 20 {
		q := b.name()
		b.queue(q, amqp.Table{"x-dead-letter-exchange": "", "x-max-length": 10, "x-max-priority": 5, "x-message-ttl": 60000})
		var deleting sync.WaitGroup
		deleting.Go(func() {
			if err := other.try(func(ch *amqp.Channel) error {
				return errOf(ch.QueueDelete(q, false, false, false))
			}); err != nil {
				t.Error(err)
			}
		})
		if _, err := inspect.Inspect(t.Context(), b.conn, inspect.Need{Queue: q}); err != nil &&
			!errors.Is(err, topology.ErrQueueNotFound) {
			t.Error(err)
		}
		deleting.Wait()
		if _, err := inspect.Inspect(t.Context(), b.conn, inspect.Need{Queue: q}); !errors.Is(err,
			topology.ErrQueueNotFound) {
			t.Fatalf("after the queue was deleted: %v", err)
		}
	}
}

func TestTopologyExclusive(t *testing.T) {
	t.Parallel()
	b, owner := newTopo(t), newTopo(t)
	q := "topology." + uuid.NewString()
	owner.must(func(ch *amqp.Channel) error { _, err := ch.QueueDeclare(q, false, false, true, false, nil); return err })
	b.want("of another connection", topology.Need{Queue: q}, "error exclusive")
	owner.want("of this connection", topology.Need{Queue: q}, "error exclusive")
}

func TestTopologyLifetime(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.must(func(ch *amqp.Channel) error { _, err := ch.QueueDeclare(q, true, true, false, false, nil); return err })
	b.want("auto-delete", topology.Need{Queue: q, AllowDrop: true}, "warning auto-delete")
	b.want("auto-delete, held", topology.Need{Queue: q, AllowDrop: true, HoldQueue: true}, "error auto-delete")
	stream := b.name()
	b.queue(stream, amqp.Table{"x-queue-type": "stream"})
	b.want("stream", topology.Need{Queue: stream, AllowDrop: true}, "error queue-type")
}

// reader connects as a user who may read, and nothing else.
func (b topo) reader() topo { return b.as("^$", "^$", ".*") }

// as connects as a user with these permissions.
func (b topo) as(configure, write, read string) topo {
	b.t.Helper()
	return topoDial(b.t, userWho(b.t, configure, write, read).String())
}

// A user who may only read gets an error that names the missing permission.
func TestTopologyPermissions(t *testing.T) {
	t.Parallel()
	admin := newTopo(t)
	q := admin.name()
	admin.declare(topology.Spec{Queue: q})

	reader := admin.reader()
	reader.want("over AMQP", topology.Need{Queue: q, MaxRetries: 3}, "error arguments-denied")
	reader.want("with the management API", topology.Need{Queue: q, MaxRetries: 3, Management: managementURL(t)})
}

// The API may be away, or that of another broker. AMQP then finds as much as it can.
func TestTopologyManagementTrouble(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.declare(topology.Spec{Queue: q})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"name":"another@cluster"}`)
	}))
	defer other.Close()
	for _, api := range []string{"http://ops:sesame@127.0.0.1:1", other.URL, strings.Replace(managementURL(t), "://",
		"://no", 1)} {
		need := topology.Need{Queue: q, MaxRetries: 3, Management: api}
		b.want("trouble", need, "warning management-unreachable")
		var log bytes.Buffer
		need.Logger = slog.New(slog.NewTextHandler(&log, nil))
		if err := topology.Check(context.Background(), b.conn, need); err != nil {
			t.Error(err)
		}
		if text := log.String(); !strings.Contains(text, "code=management-unreachable") || !strings.Contains(text,
			"queue="+q) || !strings.Contains(text, "management API (Check.Management) cannot") ||
			strings.Contains(text, "sesame") {
			t.Errorf("logged: %s", text)
		}
	}
}

func TestTopologyClosedConnection(t *testing.T) {
	t.Parallel()
	conn, err := amqp.Dial(brokerURL(t))
	need(t, err)
	conn.Close()
	if err := topology.Check(t.Context(), conn, topology.Need{Queue: "q"}); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Check: got %v, want ErrClosed", err)
	}
	if err := topology.Declare(t.Context(), conn, topology.Spec{Queue: "q"}); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("Declare: got %v, want ErrClosed", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := topology.Check(done, conn, topology.Need{Queue: "q"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Check: got %v, want Canceled", err)
	}
}

// TestReadDeclaredOfANameThatIsNotASCII: the broker closes the connection (541, 4.0.5 and 4.3.6) if it cuts the text of
// its refusal, which is not ASCII. The text has the name of the dead-letter exchange too.
func TestReadDeclaredOfANameThatIsNotASCII(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	for _, n := range []int{15, 16, 17, 18, 19} { // 51 and 54 bytes are too long with the exchange alone
		queue := b.named(strings.Repeat("票", n))
		b.queue(queue, amqp.Table{"x-dead-letter-exchange": queue + ".dlx"})
		if d, err := broker.ReadDeclared(t.Context(), b.conn, queue); b.conn.IsClosed() || (err == nil) != (n < 17) {
			t.Fatalf("%d bytes: %+v, %v", len(queue), d, err)
		}
	}
}

// TestMissingLongName: from RabbitMQ 4.0 on, a question about a missing queue or exchange with a long name that is not
// ASCII ends the connection. The error names it.
func TestMissingLongName(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("票", 80)
	for kind, find := range map[string]func(conn *amqp.Connection) (broker.Answer, error){
		"exchange": func(conn *amqp.Connection) (broker.Answer, error) {
			return broker.FindExchange(t.Context(), conn, name)
		},
		"queue": func(conn *amqp.Connection) (broker.Answer, error) {
			found, _, err := broker.FindQueue(t.Context(), conn, name)
			return found, err
		},
	} {
		conn := dialBroker(t)
		found, err := find(conn)
		if broker.VersionOf(conn).Before(4, 0) {
			if found != broker.No || err != nil {
				t.Errorf("%s: %v, %v", kind, found, err)
			}
		} else if found != broker.Unknown || err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s %q does not exist",
			kind, name)) {
			t.Errorf("%s: %v, %v", kind, found, err)
		}
	}
}

// TestReadDeclaredOfAValueThatIsNotASCII: that the connection ends says nothing against the queue.
func TestReadDeclaredOfAValueThatIsNotASCII(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := broker.Queue{Name: b.name()}
	b.queue(q.Name, amqp.Table{"x-dead-letter-exchange": strings.Repeat("票", 40)})
	if err := q.Read(t.Context(), dialBroker(t)); err != nil || q.Unread == "" {
		t.Errorf("unread %q, %v", q.Unread, err)
	}
}
