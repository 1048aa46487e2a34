package jsonl

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

func TestParseMessage(t *testing.T) {
	tests := []struct {
		in   string
		want amqp.Publishing
	}{
		{`{"body":"hello"}`, amqp.Publishing{Body: []byte("hello")}},
		{`{"body":"\ud83d\ude00 \\ud800 \n"}`, amqp.Publishing{Body: []byte("😀 \\ud800 \n")}},
		{`{"body":"b","headers":{"A":1,"a":2,"l":[{"a":1},{"a":2}]}}`, amqp.Publishing{Body: []byte("b"), Headers: amqp.Table{
			"A": int64(1), "a": int64(2), "l": []any{amqp.Table{"a": int64(1)}, amqp.Table{"a": int64(2)}},
		}}},
		{`{"body":""}`, amqp.Publishing{Body: []byte{}}},
		{`{"body":"b","dead":{"id":"i","kind":"failed"}}`, amqp.Publishing{Body: []byte("b")}}, // of dead show --json
		{`{"body_base64":"AP8="}`, amqp.Publishing{Body: []byte{0, 255}}},
		{`{"body":"b","id":"i","content_type":"c","content_encoding":"e","correlation_id":"o","reply_to":"r","type":"t",` +
			`"app_id":"a","user_id":"u","priority":9,"expiration":"100","timestamp":"2026-01-02T03:04:05Z"}`,
			amqp.Publishing{
				Body: []byte("b"), MessageId: "i", ContentType: "c", ContentEncoding: "e", CorrelationId: "o", ReplyTo: "r",
				Type: "t", AppId: "a", UserId: "u", Priority: 9, Expiration: "100",
				Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			}},
		{`{"body":"b","headers":{"s":"x","n":9007199254740993,"f":1.5,"b":true,"z":null,"l":[1,{"e":{}}],"t":{"k":"v"}}}`,
			amqp.Publishing{Body: []byte("b"), Headers: amqp.Table{
				"s": "x", "n": int64(9007199254740993), "f": 1.5, "b": true, "z": nil,
				"l": []any{int64(1), amqp.Table{"e": amqp.Table{}}}, "t": amqp.Table{"k": "v"},
			}}},
	}
	for _, tt := range tests {
		got, _, err := ParseMessage([]byte(tt.in))
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.in, err, diff)
		}
	}
}

func TestParseMessageRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{`{"bdoy":"x"}`, `unknown field "bdoy"`},
		{`{}`, `neither "body"`},
		{`{"body":"x","body_base64":""}`, `both`},
		{`{"body_base64":"*"}`, `base64`},
		{`{"body":{"a":1}}`, `field "body" cannot be a JSON object`},
		{`{"body":"x","priority":256}`, `field "priority"`},
		{`{"body":"x"} {"body":"y"}`, `after top-level value`},
		{`"text"`, `a JSON string instead of an object`},
		{` null`, `a JSON null instead of an object`},
		{`{"body":"x"`, `unexpected EOF`},
		{`text`, `leave out --ndjson to publish each line as a body`},
		{`{"body":"x","body":"y"}`, `field "body": duplicate`},
		{`{"body":"x","Body":"y"}`, `unknown field "Body"`},
		{`{"body":"x","uſer_id":"y"}`, `unknown field "uſer_id"`},
		{`{"body":"x","headers":{"a":1,"\u0061":2}}`, `field "headers/a": duplicate`},
		{`{"body":"x","headers":{"l":[{"a":1},{"b":{"c":1,"c":1}}]}}`, `field "headers/l/1/b/c": duplicate`},
		{`{"body":"\ud800"}`, `field "body": invalid surrogate pair`},
		{`{"body":"x","id":"a\\\udc00b"}`, `field "id": invalid surrogate pair`},
		{`{"body":"\ud83d\u0041"}`, `invalid surrogate pair`},
		{`{"body":"x","headers":{"k\ud800":1}}`, `field "headers": invalid surrogate pair`},
		{`{"\ud800":"x"}`, `invalid surrogate pair`},
		{"{\"body\":\"\xff\"}", `field "body": invalid UTF-8`},
		{`{"body":"x","timestamp":"noon"}`, `field "timestamp": want a time like`},
		{`{"body":"x","timestamp":"2026"}`, `field "timestamp": want a time like`},
		{`{"body":"x","timestamp":"2026-01-02T03:04:05.5Z"}`, `whole seconds`},
		{`{"body":"x","timestamp":4}`, `field "timestamp": JSON value must be string`},
	}
	for _, tt := range tests {
		if _, _, err := ParseMessage([]byte(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.in, err, tt.want)
		}
	}
}

// FuzzParseMessage looks for lines that break the parser, and for headers of types that AMQP does not have. A message
// must stay the same when it is written and read again.
func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(`{"body":"x","headers":{"a":[1,1e999,{"b":null}]}}`))
	f.Add([]byte(`{"body_base64":"AA==","id":"\u0000"}`))
	f.Add([]byte(`{"body_base64":"/w==","base64":{"id":"/w=="},"timestamp":"253402300800"}`))
	f.Add([]byte(`{"body":"x","headers":{"i":{"$amqp":["int8",-1]},"u":{"$amqp":["uint32",4294967295]},` +
		`"b":{"$amqp":["bytes","AP8="]}}}`))
	f.Add([]byte(`{"body":"x","headers":{"d":{"$amqp":["decimal",{"Scale":2,"Value":-150}]},` +
		`"f":{"$amqp":["float32","0.1"]},"n":{"$amqp":["float64","NaN"]},"t":{"$amqp":["time","2026-11-21T10:02:17Z"]}}}`))
	f.Add([]byte(`{"body":"x","headers":{"$amqp":["table",[[{"$amqp":["string","/w=="]},` +
		`{"$amqp":["table",[["$amqp",1.5]]]}]]]}}`))
	f.Add([]byte(`{"` + strings.Repeat("/", counter.MaxReason) + `":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		msg, key, err := ParseMessage(line)
		if err != nil {
			if len(err.Error()) > counter.MaxReason {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if err := msg.Headers.Validate(); err != nil {
			t.Errorf("headers: %v", err)
		}
		var out bytes.Buffer
		if err := NewEncoder(&out).Encode(MessageOf(msg, key)); err != nil {
			t.Fatal(err)
		}
		again, keyAgain, err := ParseMessage(out.Bytes())
		if diff := cmp.Diff(msg, again, same); diff != "" || err != nil || keyAgain != key {
			t.Errorf("%s is read as another message: %v\n%s", &out, err, diff)
		}
	})
}

func TestNDJSONIsFitForTerminals(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain größe 字 €", `"plain größe 字 €"`},
		{"\u009b31m", `"\u009b31m"`},
		{"\u202edrawkcab", `"\u202edrawkcab"`},
		{"\x1b[2J\x7f", `"\u001b[2J\u007f"`},
		{"\u200b\ufeff", `"\u200b\ufeff"`},
		{"\U000e0041", `"\udb40\udc41"`}, // a tag, beyond 16 bits
		{"line\nline", `"line\nline"`},
	}
	for _, tt := range tests {
		var out strings.Builder
		if err := NewEncoder(&out).Encode(tt.in); err != nil || out.String() != tt.want+"\n" {
			t.Errorf("of %q: %s, want %s (%v)", tt.in, out.String(), tt.want, err)
		}
		var back string
		if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back != tt.in {
			t.Errorf("%s is read as %q (%v)", out.String(), back, err)
		}
	}
}
