package consumer

import (
	"sync"
	"time"
)

// foreignPause is the time between two warnings about one queue: a program that copies headers sends many.
const foreignPause = time.Minute

// foreignLogged has, for each queue, when such a message was logged last. A session of Handle sees one message alone.
var foreignLogged sync.Map

// logForeign logs that a message carries headers of strikes that were written for another one.
func (s *settings) logForeign(d *delivery) {
	if last, ok := foreignLogged.Load(s.Queue); ok {
		at, _ := last.(time.Time)
		if since := d.received.Sub(at); since >= 0 && since < foreignPause {
			return
		}
	}
	foreignLogged.Store(s.Queue, d.received)
	s.Logger.Warn("a message carries headers of strikes that were written for another message or queue; "+
		"they count as absent. A program that copies the headers of a message it received must leave out those that begin "+
		"with x-strikes-; a tool that replays dead letters must set x-strikes-for",
		"queue", s.Queue, "id", d.message.ID, "exchange", d.Exchange)
}
