package publisher

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

func TestPartitionsRefuse(t *testing.T) {
	to := Partitions{Queue: "orders", N: 8}
	for name, p := range map[string]amqp.Publishing{
		"":       {},
		"k, CC":  {Headers: amqp.Table{"CC": []any{"other"}}},
		"k, BCC": {Headers: amqp.Table{"BCC": []any{"other"}}},
	} {
		if _, err := to.Message(name, p); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestPartitionsMessage(t *testing.T) {
	headers := amqp.Table{"mine": "kept", broker.PartitionHeader: "7/8"}
	m, err := Partitions{Queue: "orders", N: 8}.Message("customer-1", amqp.Publishing{Headers: headers})
	want := broker.PartitionValue(broker.PartitionOf("customer-1", 8), 8)
	if err != nil || m.Exchange != "orders" || m.Key != "customer-1" || m.Headers["mine"] != "kept" ||
		m.Headers[broker.PartitionHeader] != want {
		t.Errorf("%+v, %v, want header %s", m, err, want)
	}
	if headers[broker.PartitionHeader] != "7/8" {
		t.Error("the caller's headers were changed")
	}
	m, err = Partitions{Queue: "orders"}.Message("customer-1", amqp.Publishing{Headers: headers})
	if _, has := m.Headers[broker.PartitionHeader]; has || err != nil {
		t.Errorf("without N: %+v, %v", m, err)
	}
}

// TestPartitionCases runs spec/v1/partitions.json.
func TestPartitionCases(t *testing.T) {
	text, err := os.ReadFile("../spec/v1/partitions.json")
	need(t, err)
	var file struct {
		Cases []struct {
			Name, Key, Header string
			Partitions        int
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) < 10 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		m, err := Partitions{Queue: "orders", N: c.Partitions}.Message(c.Key, amqp.Publishing{})
		if err != nil || m.Headers[broker.PartitionHeader] != c.Header {
			t.Errorf("%s: header %v, %v, want %s", c.Name, m.Headers[broker.PartitionHeader], err, c.Header)
		}
	}
}

// TestKeysAreSpread: 2,000 keys that differ in their last bytes are spread over 8 partitions within a fifth of evenly.
func TestKeysAreSpread(t *testing.T) {
	var sizes [8]int
	for i := range 2000 {
		sizes[broker.PartitionOf(fmt.Sprintf("customer-%d", i), 8)]++
	}
	for p, n := range sizes {
		if n < 200 || n > 300 {
			t.Errorf("partition %d has %d keys, want about 250: %v", p, n, sizes)
		}
	}
}
