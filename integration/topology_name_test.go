package integration

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

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
