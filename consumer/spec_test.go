package consumer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
)

// specTable is a table of AMQP values; spec/README.md has their form.
type specTable amqp.Table

func (s *specTable) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	table, _ := amqpValue(v).(amqp.Table)
	*s = specTable(table)
	return nil
}

func (s specTable) MarshalJSON() ([]byte, error) { return json.Marshal(jsonTable(amqp.Table(s))) }

// jsonTable is the form of a table in a case. It has the types of which schedules are made.
func jsonTable(of amqp.Table) map[string]any {
	out := map[string]any{}
	for k, v := range of {
		out[k] = jsonValue(v)
	}
	return out
}

func jsonValue(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		return jsonTable(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = jsonValue(v[i])
		}
		return list
	case int64:
		return map[string]any{"$int64": v}
	case time.Time:
		return map[string]any{"$timestamp": v.Unix()}
	case string:
		return v
	}
	panic(fmt.Sprintf("a %T in the headers of a schedule", v))
}

// amqpValue is the AMQP value that JSON stands for, or nil.
func amqpValue(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = amqpValue(v[i])
		}
		return list
	case map[string]any:
		table := amqp.Table{}
		for k, x := range v {
			if len(v) == 1 && k[0] == '$' {
				return typedValue(k, x)
			}
			table[k] = amqpValue(x)
		}
		return table
	case json.Number:
		panic("a number without a type: " + v.String())
	}
	return v
}

func typedValue(kind string, v any) any {
	if kind == "$bytes" {
		var out []byte
		if err := json.Unmarshal(fmt.Appendf(nil, "%q", v), &out); err != nil {
			panic(err)
		}
		return out
	}
	if kind == "$double" {
		f, err := v.(json.Number).Float64()
		if err != nil {
			panic(err)
		}
		return f
	}
	n, err := json.Number(fmt.Sprint(v)).Int64() // a number, or its text
	if err != nil {
		panic(err)
	}
	switch kind {
	case "$timestamp":
		return time.Unix(n, 0)
	case "$int64":
		return n
	case "$int32":
		return int32(n)
	case "$int16":
		return int16(n)
	case "$int8":
		return int8(n)
	case "$uint32":
		return uint32(n)
	case "$uint16":
		return uint16(n)
	case "$uint8":
		return uint8(n)
	}
	panic("unknown type " + kind)
}

func TestSpecGenerations(t *testing.T) {
	type generationCase struct {
		Name, Why, Queue, ID, Body, Generation string
		Headers                                specTable
		Fence                                  int64
		CopyNumber                             int64 `json:"copy_number"`
		Position                               string
		Foreign                                bool
	}
	for _, c := range servertest.SpecCases[generationCase](t, "generations.json") {
		headers := broker.ReadHeaders(amqp.Table(c.Headers), c.Queue, c.ID, []byte(c.Body))
		got := headers.Generation()
		if got != c.Generation {
			t.Errorf("%s (%s): generation %q, want %q", c.Name, c.Why, got, c.Generation)
		}
		count, since, ok := broker.ParseGeneration(got) // a copy has its generation in a header of its own
		if ok && headers.CopyNumber() == 0 && headers.GenerationAfter(count, since) != got {
			t.Errorf("%s (%s): %q is read as %d at %v", c.Name, c.Why, got, count, since)
		}
		if got := carriedFence(headers); got != c.Fence {
			t.Errorf("%s (%s): fence %d, want %d", c.Name, c.Why, got, c.Fence)
		}
		if got := headers.CopyNumber(); got != c.CopyNumber {
			t.Errorf("%s (%s): copy number %d, want %d", c.Name, c.Why, got, c.CopyNumber)
		}
		if got := headers.Position(); got != c.Position {
			t.Errorf("%s (%s): position %q, want %q", c.Name, c.Why, got, c.Position)
		}
		if got := headers.Foreign(); got != c.Foreign {
			t.Errorf("%s (%s): foreign %v, want %v", c.Name, c.Why, got, c.Foreign)
		}
	}
}
