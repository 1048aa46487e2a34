package bench

import "time"

// CPU is how long processors have worked for the broker, for the store, and for this process, which is whichever client is
// measured. It says where the time of a contestant goes: on a machine that all three share, to whichever uses most.
type CPU struct{ Broker, Store, Client time.Duration }

func (c CPU) since(before CPU) CPU {
	return CPU{c.Broker - before.Broker, c.Store - before.Store, c.Client - before.Client}
}

func (c CPU) plus(more CPU) CPU {
	return CPU{c.Broker + more.Broker, c.Store + more.Store, c.Client + more.Client}
}

// Cost is CPU time a message, or a step, in µs.
type Cost struct {
	Broker float64 `json:"broker"`
	Store  float64 `json:"store"`
	Client float64 `json:"client"`
}

// All is the sum.
func (c Cost) All() float64 { return c.Broker + c.Store + c.Client }

// per spreads CPU time over so many messages; nil if none was told.
func (c CPU) per(messages int) *Cost {
	if c == (CPU{}) || messages == 0 {
		return nil
	}
	of := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(messages) }
	return &Cost{of(c.Broker), of(c.Store), of(c.Client)}
}
