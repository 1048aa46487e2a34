// Package jsonl turns messages into lines of JSON, and back.
package jsonl

import (
	jsonv1 "encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/printable"
)

// Parse makes the message of one line of input, and its routing key if the line has one.
type Parse func(line []byte) (msg amqp.Publishing, key string, err error)

// ParseText takes the line as the body.
func ParseText(line []byte) (amqp.Publishing, string, error) {
	return amqp.Publishing{Body: line}, "", nil
}

// Message is a message as a line of NDJSON.
type Message struct {
	ID              string         `json:"id,omitempty"`
	Body            *string        `json:"body,omitempty"`
	BodyBase64      *[]byte        `json:"body_base64,omitempty"`
	Headers         map[string]any `json:"headers,omitempty"`
	ContentType     string         `json:"content_type,omitempty"`
	ContentEncoding string         `json:"content_encoding,omitempty"`
	CorrelationID   string         `json:"correlation_id,omitempty"`
	ReplyTo         string         `json:"reply_to,omitempty"`
	Type            string         `json:"type,omitempty"`
	AppID           string         `json:"app_id,omitempty"`
	UserID          string         `json:"user_id,omitempty"`
	Priority        uint8          `json:"priority,omitempty"`
	Expiration      string         `json:"expiration,omitempty"` // milliseconds, as AMQP has it
	RoutingKey      string         `json:"routing_key,omitempty"`
	Timestamp       Moment         `json:"timestamp,omitzero"`

	Base64 map[string][]byte `json:"base64,omitempty"` // those of the texts above that are not UTF-8, by their names
}

// texts are those that AMQP allows to be any bytes, by their names in JSON.
func (e *Message) texts() map[string]*string {
	return map[string]*string{
		"id": &e.ID, "content_type": &e.ContentType, "content_encoding": &e.ContentEncoding,
		"correlation_id": &e.CorrelationID,
		"reply_to":       &e.ReplyTo, "type": &e.Type, "app_id": &e.AppID, "user_id": &e.UserID, "expiration": &e.Expiration,
		"routing_key": &e.RoutingKey,
	}
}

// ParseMessage reads one JSON object with the fields of a Message, and no others. It passes over "dead", which dead
// show --json adds. It refuses a field that is given twice, half a surrogate pair, and bytes that are not UTF-8.
func ParseMessage(line []byte) (msg amqp.Publishing, key string, err error) {
	var e struct {
		Message
		Dead jsontext.Value `json:"dead"` // facts about a dead letter, not of the message
	}
	if err := json.Unmarshal(line, &e, json.RejectUnknownMembers(true), headerValues); err != nil {
		return amqp.Publishing{}, "", jsonError(err)
	}
	if jsontext.Value(line).Kind() == 'n' { // Unmarshal takes it for an object without fields
		return amqp.Publishing{}, "", errors.New("a JSON null instead of an object")
	}
	body, err := e.body()
	if err != nil {
		return amqp.Publishing{}, "", err
	}
	headers, err := headersOf(e.Headers)
	if err != nil {
		return amqp.Publishing{}, "", err
	}
	if err := e.decode(); err != nil {
		return amqp.Publishing{}, "", err
	}
	return amqp.Publishing{
		MessageId: e.ID, Body: body, Headers: headers, ContentType: e.ContentType, ContentEncoding: e.ContentEncoding,
		CorrelationId: e.CorrelationID, ReplyTo: e.ReplyTo, Type: e.Type, AppId: e.AppID, UserId: e.UserID,
		Priority: e.Priority, Expiration: e.Expiration, Timestamp: time.Time(e.Timestamp),
	}, e.RoutingKey, nil
}

func (e *Message) decode() error {
	texts := e.texts()
	for name, bytes := range e.Base64 {
		text := texts[name]
		if text == nil || *text != "" {
			return fmt.Errorf(`"base64" has %q, which is no text, or is given already`, name)
		}
		*text = string(bytes)
	}
	return nil
}

func (e *Message) body() ([]byte, error) {
	switch {
	case e.Body != nil && e.BodyBase64 != nil:
		return nil, errors.New(`both "body" and "body_base64" are given`)
	case e.Body != nil:
		return []byte(*e.Body), nil
	case e.BodyBase64 != nil:
		return *e.BodyBase64, nil
	}
	return nil, errors.New(`neither "body" (text) nor "body_base64" is given`)
}

// headerValues refuses headers that are too deep, and keeps their numbers as they are written: a float64 holds no large
// integer.
var headerValues = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
	switch {
	case d.StackDepth() > deepest:
		return errDeep
	case d.PeekKind() != '0':
		return errors.ErrUnsupported
	}
	number, err := d.ReadValue()
	*v = jsonv1.Number(number)
	return err
}))

// jsonError describes the error in a line without the decoder's Go terms.
func jsonError(err error) error {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.Is(err, errDeep):
		return errDeep
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("unknown field %q; strikes publish --help lists the fields", field(semantic.JSONPointer))
	case errors.As(err, &semantic) && semantic.JSONPointer == "":
		return fmt.Errorf("a JSON %s instead of an object", kinds[semantic.JSONKind])
	case errors.As(err, &semantic) && semantic.Err != nil:
		return fmt.Errorf("field %q: %w", field(semantic.JSONPointer), semantic.Err)
	case errors.As(err, &semantic):
		return fmt.Errorf("field %q cannot be a JSON %s", field(semantic.JSONPointer), kinds[semantic.JSONKind])
	case errors.As(err, &syntax) && syntax.JSONPointer != "":
		return fmt.Errorf("field %q: %w", field(syntax.JSONPointer), syntax.Err)
	case errors.As(err, &syntax):
		return fmt.Errorf("no JSON object: %w; leave out --ndjson to publish each line as a body", syntax.Err)
	}
	return err
}

var kinds = map[jsontext.Kind]string{'{': "object", '[': "array", '"': "string", '0': "number", 't': "true",
	'f': "false", 'n': "null"}

// field names a field, such as headers/trace, in 200 bytes at most.
func field(at jsontext.Pointer) string {
	return printable.Cut(strings.TrimPrefix(string(at), "/"), 200)
}

// MessageOf returns the line of a message, and of its routing key if that is not empty. Nothing is lost in it.
func MessageOf(m amqp.Publishing, key string) Message {
	line := Message{
		ID: m.MessageId, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, CorrelationID: m.CorrelationId,
		ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppId, UserID: m.UserId, Priority: m.Priority, Expiration: m.Expiration,
		RoutingKey: key, Timestamp: Moment(m.Timestamp),
	}
	for name, text := range line.texts() {
		if !utf8.ValidString(*text) {
			if line.Base64 == nil {
				line.Base64 = map[string][]byte{}
			}
			line.Base64[name], *text = []byte(*text), ""
		}
	}
	if len(m.Headers) > 0 {
		line.Headers = jsonTable(m.Headers)
	}
	if body := string(m.Body); utf8.ValidString(body) {
		line.Body = &body
	} else {
		line.BodyBase64 = &m.Body
	}
	return line
}

// NewEncoder returns an encoder that prints values as JSON, one line each, in which nothing is left that a terminal
// might obey: encoding/json escapes less than printable does, and who reads it gets the same from an escape.
func NewEncoder(w io.Writer) *jsonv1.Encoder { return jsonv1.NewEncoder(escaping{w}) }

// escaping escapes JSON that is written to it, whole lines at a time.
type escaping struct{ w io.Writer }

func (e escaping) Write(line []byte) (int, error) {
	if _, err := e.w.Write(Escape(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Escape escapes the characters of valid JSON that are not printable. Except for line ends, only strings hold such
// characters.
func Escape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == '\n' || strconv.IsPrint(r) {
			out = append(out, text[:size]...)
		} else {
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return out
}
