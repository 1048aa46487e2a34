package records

import (
	"time"

	"github.com/strikesmq/strikes/counter"
)

// Undecodable is what consumers reported about a message that they cannot decode, or that the broker cannot convert
// for them.
type Undecodable struct {
	Sessions int64     `json:"sessions"` // that it ended
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
	After    string    `json:"after,omitempty"` // id of the message delivered last before it
	Holder   string    `json:"holder,omitempty"`
	Error    string    `json:"error,omitempty"`

	Unconverted bool `json:"unconverted,omitempty"` // the broker cannot convert it to AMQP 0.9.1
}

// stillThere is how old the last session that such a message ended may be: consumers try again every 2 s.
const stillThere = time.Minute

// Blocks reports whether the message is still in the queue, as far as is known. A single 541 of the broker may have
// another cause.
func (u Undecodable) Blocks(now time.Time) bool {
	return now.Sub(u.Last) <= stillThere && (!u.Unconverted || u.Sessions > 1)
}

// What names the message, for people.
func (u Undecodable) What() string {
	if u.Unconverted {
		return "a message that the broker cannot convert to AMQP 0.9.1"
	}
	return "a message that consumers cannot decode"
}

// UndecodableOf returns what the store knows; nil if nothing.
func UndecodableOf(u *counter.Undecodable) *Undecodable {
	if u == nil {
		return nil
	}
	return &Undecodable{
		Sessions: u.Sessions, Since: u.Since, Last: u.At, After: u.After, Holder: u.Holder, Error: u.Error, Unconverted: u.Unconverted,
	}
}
