package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// amqpKey is the only key of an object that stands for a header value of a type that JSON does not have. Its value is
// a list of the type and the value. From it publish restores the header that dead drop wrote:
//
//	["int8",7]                        also uint8, int16, uint16, int32, uint32; a plain whole number is an int64
//	["float64","2"]                   a whole number, "NaN", "+Inf" or "-Inf"; other float64 are plain numbers
//	["float32","1.5"]
//	["decimal",{"Scale":2,"Value":150}]
//	["bytes","/w=="]                  in base64
//	["string","/w=="]                 in base64, because it is not UTF-8
//	["time","2026-11-21T10:02:17Z"]   beyond the year 9999: "253402300800", seconds since 1970
//	["table",[["name",7]]]            a name is not UTF-8, or the only one is $amqp
const amqpKey = "$amqp"

// Value returns a header value as JSON has it.
func Value(v any) any {
	switch v := v.(type) {
	case nil, bool, int, int64:
		return v
	case string:
		if utf8.ValidString(v) {
			return v
		}
		return typed("string", []byte(v))
	case float64:
		if v != math.Trunc(v) && !math.IsNaN(v) {
			return v
		}
		return typed("float64", fmt.Sprint(v))
	case float32:
		return typed("float32", fmt.Sprint(v))
	case amqp.Decimal:
		return typed("decimal", v)
	case []byte:
		return typed("bytes", v)
	case time.Time:
		return typed("time", Moment(v))
	case amqp.Table:
		return jsonTable(v)
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = Value(inner)
		}
		return list
	}
	return typed(fmt.Sprintf("%T", v), v) // an integer
}

func typed(name string, v any) map[string]any { return map[string]any{amqpKey: []any{name, v}} }

func jsonTable(t amqp.Table) map[string]any {
	out, ambiguous := make(map[string]any, len(t)), false
	var pairs [][2]any
	for _, key := range slices.Sorted(maps.Keys(t)) {
		v := Value(t[key])
		out[key] = v
		pairs = append(pairs, [2]any{Value(key), v})
		ambiguous = ambiguous || !utf8.ValidString(key) || key == amqpKey && len(t) == 1
	}
	if ambiguous {
		return typed("table", pairs)
	}
	return out
}

// deepest bounds the levels of JSON in a line. A table of "$amqp" has four of them, the client takes 32 tables in each
// other, and the line has the rest.
const deepest = 4 * 33

var errDeep = errors.New(`"headers" has tables in each other, deeper than the 32 levels that a client can read`)

func headersOf(m map[string]any) (amqp.Table, error) {
	if len(m) == 0 {
		return nil, nil
	}
	v, err := valueOf(m)
	if err != nil {
		return nil, err
	}
	t, ok := v.(amqp.Table)
	if !ok {
		return nil, errors.New(`"headers" is one value instead of an object of names and values`)
	}
	return t, nil
}

func valueOf(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return nil, fmt.Errorf("the whole number %.40s does not fit a header: want -2^63 to 2^63-1; send it as a string", v)
		}
		f, _ := v.Float64() // beyond a float's range it is infinite, which the publisher refuses
		return f, nil
	case map[string]any:
		if pair, ok := v[amqpKey]; ok && len(v) == 1 {
			return untyped(pair)
		}
		t := amqp.Table{}
		for key, inner := range v {
			var err error
			if t[key], err = valueOf(inner); err != nil {
				return nil, err
			}
		}
		return t, nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = valueOf(v[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return v, nil
}

// untyped returns the value of a type and a value, which must be as Value writes them.
func untyped(pair any) (any, error) {
	written, err := json.Marshal(map[string]any{amqpKey: pair})
	if err != nil {
		return nil, err
	}
	refused := fmt.Errorf("header value %.200s is not as dead drop writes it", written)
	list, _ := pair.([]any)
	if len(list) != 2 {
		return nil, refused
	}
	name, _ := list[0].(string)
	read := readers[name]
	if read == nil {
		return nil, refused
	}
	v, err := read(list[1])
	if err != nil {
		return nil, refused
	}
	if again, err := json.Marshal(Value(v)); err != nil || !bytes.Equal(again, written) {
		return nil, refused // out of range, for example
	}
	return v, nil
}

var readers map[string]func(any) (any, error)

func init() { // the values of a table are read by readers
	readers = map[string]func(any) (any, error){
		"int8": as[int8], "uint8": as[uint8], "int16": as[int16], "uint16": as[uint16], "int32": as[int32],
		"uint32":  as[uint32],
		"float32": func(v any) (any, error) { f, err := float(v, 32); return float32(f), err },
		"float64": func(v any) (any, error) { return float(v, 64) },
		"decimal": as[amqp.Decimal],
		"bytes":   as[[]byte],
		"string":  func(v any) (any, error) { b, err := as[[]byte](v); return string(b.([]byte)), err },
		"time":    func(v any) (any, error) { return timeOf(v) },
		"table":   tableOf,
	}
}

// as reads a value that encoding/json writes of a T.
func as[T any](v any) (any, error) {
	var out T
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

func float(v any, bits int) (float64, error) {
	text, _ := v.(string)
	return strconv.ParseFloat(text, bits)
}

func tableOf(v any) (any, error) {
	list, _ := v.([]any)
	t := amqp.Table{}
	for _, entry := range list {
		pair, _ := entry.([]any)
		if len(pair) != 2 {
			return nil, errors.New("not a name and a value")
		}
		key, err := valueOf(pair[0])
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if t[name], err = valueOf(pair[1]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func timeOf(v any) (time.Time, error) {
	s, _ := v.(string)
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
		if t := time.Unix(seconds, 0).UTC(); !inYears(t) {
			return t, nil
		}
	}
	t, err := time.Parse(time.RFC3339, s)
	switch {
	case err != nil:
		return t, errors.New("want a time like 2026-11-21T10:02:17Z")
	case t.Nanosecond() != 0:
		return t, errors.New("want a time in whole seconds, which is all that AMQP has")
	}
	return t, nil
}

// inYears reports whether RFC 3339 has a year for it.
func inYears(t time.Time) bool { return t.Year() >= 0 && t.Year() <= 9999 }

// Moment is a time that JSON can say whatever its year: publishers write milliseconds where AMQP has seconds.
type Moment time.Time

// IsZero reports whether the time is not known.
func (m Moment) IsZero() bool { return time.Time(m).IsZero() }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Moment) UnmarshalText(text []byte) error {
	if len(text) == 0 { // as if it were not given
		return nil
	}
	t, err := timeOf(string(text))
	*m = Moment(t)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (m Moment) MarshalJSON() ([]byte, error) {
	t := time.Time(m).UTC()
	if !inYears(t) {
		return json.Marshal(strconv.FormatInt(t.Unix(), 10))
	}
	return json.Marshal(t)
}
