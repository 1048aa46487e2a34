package deadletter

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TestSpool puts every type that a header may have into the file.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, err := newSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the file has a name: %v, %v", left, err)
	}
	everything := amqp.Table{
		"nil": nil, "bool": false, "byte": byte(0), "int8": int8(-1), "int16": int16(2), "int32": int32(3),
		"int64":   int64(math.MaxInt64),
		"float32": float32(1.5), "float64": math.Inf(1), "string": "", "bytes": []byte{0xff}, "time": time.Unix(1, 0).UTC(),
		"decimal": amqp.Decimal{Scale: 2, Value: 7}, "table": amqp.Table{"nil": nil, "empty": amqp.Table{}},
		"list": []any{nil, []any{}, int64(1), "x"},
	}
	in := []*Message{
		{ID: "a", tag: 7, Publishing: amqp.Publishing{Headers: everything, Body: []byte("body"), Priority: 3,
			Timestamp: time.Unix(5, 0).UTC()}},
		{ID: "b\x1b[31m", tag: 1 << 40, Size: 9, Redelivered: true, Returns: 2, Replays: 1, partitions: 8,
			Origin: Death{Queue: "q", Time: time.Unix(9, 0).UTC(), Count: 1}},
	}
	for _, l := range in {
		if err := s.put(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rewind(); err != nil {
		t.Fatal(err)
	}
	for _, want := range in {
		got, err := s.take(t.Context())
		if err != nil || got == nil {
			t.Fatalf("%v, %v", got, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Message{}), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
	if l, err := s.take(t.Context()); l != nil || err != nil {
		t.Errorf("at the end: %v, %v", l, err)
	}
}
