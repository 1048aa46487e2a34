package jsonl

import (
	"encoding/base64"
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

// Header values have more types than JSON. What JSON cannot say is an object with one key, by which it is read back as it was:
//
//	{"$bytes":"/w=="}            base64
//	{"$string":"/w=="}           base64, of a text that is not UTF-8
//	{"$time":"2026-11-21T10:02:17Z"}  or, beyond the year 9999, "253402300800", seconds since 1970
//	{"$decimal":[2,150]}         scale and value: 1.50
//	{"$int8":7}                  or $byte, $int16, $int32, $uint16, $uint32; a plain whole number is an int64
//	{"$float32":"1.5"}           or $float64, if it would be read as a whole number, or is none
//	{"$table":[["name",7]]}      of keys that are not UTF-8, or of one key that begins with $

// Value turns a header value into what JSON has.
func Value(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		return jsonTable(v)
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = Value(inner)
		}
		return out
	case string:
		if !utf8.ValidString(v) {
			return tagged("$string", []byte(v))
		}
	case []byte:
		return tagged("$bytes", v)
	case time.Time:
		return tagged("$time", Moment(v))
	case amqp.Decimal:
		return tagged("$decimal", []int64{int64(v.Scale), int64(v.Value)})
	case int8:
		return tagged("$int8", v)
	case byte:
		return tagged("$byte", v)
	case int16:
		return tagged("$int16", v)
	case int32:
		return tagged("$int32", v)
	case uint16:
		return tagged("$uint16", v)
	case uint32:
		return tagged("$uint32", v)
	case float32:
		return tagged("$float32", strconv.FormatFloat(float64(v), 'g', -1, 32))
	case float64:
		if v == math.Trunc(v) || math.IsNaN(v) {
			return tagged("$float64", strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	return v
}

func tagged(tag string, v any) map[string]any { return map[string]any{tag: v} }

func jsonTable(t amqp.Table) map[string]any {
	out, plain := make(map[string]any, len(t)), true
	var pairs [][2]any
	for key, inner := range t {
		v := Value(inner)
		out[key] = v
		pairs = append(pairs, [2]any{Value(key), v})
		plain = plain && utf8.ValidString(key) && (len(t) > 1 || !strings.HasPrefix(key, "$"))
	}
	if !plain {
		return tagged("$table", pairs)
	}
	return out
}

// untagged gives values that were read from JSON the types that they had.
func untagged(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			var err error
			if v[i], err = untagged(v[i]); err != nil {
				return nil, err
			}
		}
	case amqp.Table:
		for key, inner := range v {
			if read := tags[key]; len(v) == 1 && read != nil {
				out, err := read(inner)
				if err != nil {
					return nil, fmt.Errorf("header value %q: %w", key, err)
				}
				return out, nil
			}
			var err error
			if v[key], err = untagged(inner); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// headersOf are the headers of a line.
func headersOf(m map[string]any) (amqp.Table, error) {
	t := table(m)
	if t == nil {
		return nil, nil
	}
	v, err := untagged(t)
	if err != nil {
		return nil, err
	}
	if t, ok := v.(amqp.Table); ok {
		return t, nil
	}
	return nil, errors.New(`"headers" is one value instead of an object of names and values`)
}

// tags read what a tag is of.
var tags map[string]func(any) (any, error)

func init() { // a table has values that have tags
	tags = map[string]func(any) (any, error){
		"$bytes":   func(v any) (any, error) { return bytesOf(v) },
		"$string":  func(v any) (any, error) { b, err := bytesOf(v); return string(b), err },
		"$time":    func(v any) (any, error) { return timeOf(v) },
		"$decimal": decimalOf,
		"$int8":    whole[int8](math.MinInt8, math.MaxInt8),
		"$byte":    whole[byte](0, math.MaxUint8),
		"$int16":   whole[int16](math.MinInt16, math.MaxInt16),
		"$int32":   whole[int32](math.MinInt32, math.MaxInt32),
		"$uint16":  whole[uint16](0, math.MaxUint16),
		"$uint32":  whole[uint32](0, math.MaxUint32),
		"$float32": func(v any) (any, error) { f, err := floatOf(v, 32); return float32(f), err },
		"$float64": func(v any) (any, error) { return floatOf(v, 64) },
		"$table":   tableOf,
	}
}

// Tags are the names of the tags.
func Tags() []string { return slices.Sorted(maps.Keys(tags)) }

func bytesOf(v any) ([]byte, error) {
	s, ok := v.(string)
	if !ok {
		return nil, errors.New("it is a text in base64")
	}
	return base64.StdEncoding.DecodeString(s)
}

// timeOf reads what a moment writes.
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
		return t, errors.New("it is a time like 2026-11-21T10:02:17Z")
	case t.Nanosecond() != 0:
		return t, errors.New("it is a time in whole seconds, which is all that AMQP has")
	}
	return t, nil
}

// inYears reports whether RFC 3339 has a year for it.
func inYears(t time.Time) bool { return t.Year() >= 0 && t.Year() <= 9999 }

func decimalOf(v any) (any, error) {
	list, _ := v.([]any)
	if len(list) == 2 {
		scale, ok1 := list[0].(int64)
		value, ok2 := list[1].(int64)
		if ok1 && ok2 && scale >= 0 && scale <= math.MaxUint8 && value >= math.MinInt32 && value <= math.MaxInt32 {
			return amqp.Decimal{Scale: uint8(scale), Value: int32(value)}, nil
		}
	}
	return nil, errors.New("it is a list of scale and value")
}

// whole reads a number that T can hold.
func whole[T int8 | byte | int16 | int32 | uint16 | uint32](least, most int64) func(any) (any, error) {
	return func(v any) (any, error) {
		n, ok := v.(int64)
		if !ok || n < least || n > most {
			return nil, fmt.Errorf("it is a whole number from %d to %d", least, most)
		}
		return T(n), nil
	}
}

func floatOf(v any, bits int) (float64, error) {
	s, ok := v.(string)
	if !ok {
		return 0, errors.New("it is a number as a text")
	}
	return strconv.ParseFloat(s, bits)
}

func tableOf(v any) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("it is a list of pairs")
	}
	out := amqp.Table{}
	for _, entry := range list {
		pair, _ := entry.([]any)
		if len(pair) != 2 {
			return nil, errors.New("it is a list of pairs")
		}
		key, err := untagged(pair[0])
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, errors.New("a name is a text")
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("name %q is there twice", name)
		}
		if out[name], err = untagged(pair[1]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Moment is a time that JSON can say whatever its year: publishers write milliseconds where AMQP has seconds.
type Moment time.Time

// IsZero reports whether the time is not known.
func (m Moment) IsZero() bool { return time.Time(m).IsZero() }

// MarshalJSON implements [json.Marshaler].
func (m Moment) MarshalJSON() ([]byte, error) {
	t := time.Time(m).UTC()
	if !inYears(t) {
		return json.Marshal(strconv.FormatInt(t.Unix(), 10))
	}
	return json.Marshal(t)
}
