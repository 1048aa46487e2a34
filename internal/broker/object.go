package broker

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object in a reply. RabbitMQ makes objects of Erlang lists of pairs, so it writes an empty one as
// [] in some places: for example the channel_details of a consumer whose channel is closing. Such an object has the
// zero T, or an empty map. Every field of a reply that holds an object has this type.
type object[T any] struct{ is T }

// UnmarshalJSON takes an object, [] or null. Null leaves the zero T.
func (o *object[T]) UnmarshalJSON(data []byte) error {
	if inside, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte("[")); ok && bytes.Equal(bytes.TrimSpace(inside),
		[]byte("]")) {
		data = []byte("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(&o.is)
}
