package jsonl

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"
)

// same compares messages: a header that is not a number equals itself.
var same = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}), cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b })}

// TestKeptIsLossless writes every type that a header may have to a line of the file, and reads it as publish --ndjson
// does.
func TestKeptIsLossless(t *testing.T) {
	everything := amqp.Table{
		"nil": nil, "bool": false, "byte": byte(255), "int8": int8(-1), "int16": int16(2), "int32": int32(3),
		"uint16": uint16(4), "uint32": uint32(5), "int64": int64(math.MaxInt64),
		"float32": float32(0.1), "third": float64(1) / 3, "whole": float64(2), "large": 1e300, "inf": math.Inf(-1),
		"nan": math.NaN(), "minus": math.Copysign(0, -1),
		"string": "\x1b ü", "not UTF-8": "a\xff", "bytes": []byte{0xff, 0}, "no bytes": []byte{},
		"time": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "milliseconds": time.Unix(1_700_000_000_000, 0).UTC(),
		"decimal": amqp.Decimal{Scale: 2, Value: -150}, "a\xffkey": "v",
		"list": []any{nil, []any{}, int32(1), amqp.Table{"$amqp": []any{"bytes", "AQ=="}}},
		"table": amqp.Table{"empty": amqp.Table{}, "tag": amqp.Table{"$amqp": int32(1)}, "other": amqp.Table{"$ref": "x"},
			"\xff": amqp.Table{"a\xff": nil}},
	}
	for _, want := range []amqp.Publishing{
		{Body: []byte("x")},
		{Body: []byte{0xff}, Headers: everything, MessageId: "\xff", Type: "t", CorrelationId: "c\xff",
			Timestamp: time.Unix(1_700_000_000_000, 0).UTC()},
		{Body: []byte(""), Headers: amqp.Table{"$amqp": "alone"}, Timestamp: time.Unix(5, 0).UTC()},
		{Body: []byte(""), Headers: amqp.Table{"\xff": "alone"}},
	} {
		line, err := json.Marshal(MessageOf(want, want.MessageId))
		if err != nil {
			t.Fatal(err)
		}
		got, key, err := ParseMessage(line)
		if diff := cmp.Diff(want, got, same); diff != "" || err != nil || key != want.MessageId {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
}

func TestValueOfRefuses(t *testing.T) {
	const refused = "is not as dead drop writes it"
	for headers, want := range map[string]string{
		`{"a":{"$amqp":["int8",128]}}`:                        `{"$amqp":["int8",128]} ` + refused,
		`{"a":{"$amqp":["int64",1]}}`:                         refused,
		`{"a":{"$amqp":["int8",null]}}`:                       refused,
		`{"a":{"$amqp":["bytes",7]}}`:                         refused,
		`{"a":{"$amqp":["bytes","*"]}}`:                       refused,
		`{"a":{"$amqp":["string","eA=="]}}`:                   refused,
		`{"a":[{"$amqp":["time","noon"]}]}`:                   refused,
		`{"a":{"$amqp":["time","2026-11-21T10:02:17.5Z"]}}`:   refused,
		`{"a":{"$amqp":["decimal",{"Scale":256,"Value":1}]}}`: refused,
		`{"a":{"$amqp":["decimal",{"scale":2,"value":1}]}}`:   refused,
		`{"a":{"$amqp":["float64",1]}}`:                       refused,
		`{"a":{"$amqp":["float64","1.5"]}}`:                   refused,
		`{"a":{"$amqp":["table",[["k",1]]]}}`:                 refused,
		`{"a":{"$amqp":["table",[["$amqp",1],["$amqp",2]]]}}`: refused,
		`{"a":{"$amqp":["table",[["k"]]]}}`:                   refused,
		`{"a":{"$amqp":["table",[[7,8]]]}}`:                   refused,
		`{"a":{"$amqp":"int8"}}`:                              refused,
		`{"$amqp":["int32",7]}`:                               `"headers" is one value`,
		`{"a":{"b":{"$amqp":["string","/w="]}}}`:              refused,
		`{"a":18446744073709551615}`:                          "the whole number 18446744073709551615 does not fit a header",
		`{}, "id":"x", "base64":{"id":"eA=="}`:                `"base64" has "id"`,
		`{}, "base64":{"body":"eA=="}`:                        `"base64" has "body"`,

		strings.Repeat(`{"a":`, deepest) + "1" + strings.Repeat("}", deepest): "deeper than the 32 levels",
	} {
		if _, _, err := ParseMessage([]byte(`{"body":"x","headers":` + headers + `}`)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", headers, err, want)
		}
	}
}
