package broker

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Generation names the generation of a message, by its newest death in the queue and its GenerationHeader, each if
// there is one. Either may be newer: a replay removes x-death and changes the header; a tool that moves a dead letter
// back keeps the header and brings a new x-death. A change of either begins a generation, so their order does not
// matter.
//
// RabbitMQ 4.x keeps the count of a death at 1 and changes its time, 3.10 the other way round: the name has both.
func (h Headers) Generation() string {
	if d, ok := h.NewestDeath(); ok {
		return h.GenerationAfter(d.Count, d.Time)
	}
	return h.FirstGeneration()
}

// FirstGeneration names the generation that a publish or a replay began. A copy from a delay queue has the generation
// that it carries.
func (h Headers) FirstGeneration() string {
	if h.CopyNumber() > 0 {
		if v, ok := h.table[CopyGenerationHeader].(string); ok && v != "" {
			return v
		}
	}
	if h.own() {
		if v := generationIn(h.table); v != "" {
			return "header:" + v
		}
	}
	return ""
}

// GenerationAfter names the generation that began when a message with these headers came back from a death.
func (h Headers) GenerationAfter(count int64, at time.Time) string {
	death := fmt.Sprintf("%d@%d", count, at.Unix())
	if first := h.FirstGeneration(); first != "" {
		return death + " " + first
	}
	return death
}

// ParseGeneration returns the death in the name of a generation; false if the name has none.
func ParseGeneration(name string) (count int64, at time.Time, ok bool) {
	death, _, _ := strings.Cut(name, " ")
	n, t, _ := strings.Cut(death, "@")
	count, errCount := strconv.ParseInt(n, 10, 64)
	unix, errTime := strconv.ParseInt(t, 10, 64)
	return count, time.Unix(unix, 0), errCount == nil && errTime == nil
}
