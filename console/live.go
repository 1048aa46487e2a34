package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// liveEvery is how often an open page is brought up to date.
	liveEvery = 2 * time.Second
	// slowBrowser is how long a browser may take to receive an update. Then the stream ends, and the browser begins a new
	// one with the newest page: nothing queues up for it.
	slowBrowser = 10 * time.Second
	// mostStreams is the most streams of open pages at the same time, because each costs memory.
	mostStreams = 200
)

// update is an event of a stream: the newest content of the page, or why there is none.
type update struct {
	Title   string `json:"title"`
	HTML    string `json:"html"`
	Trouble string `json:"trouble"`
}

// live streams the content of a page, or sends it once to a browser that polls.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("screen")
	screen := map[string]func(*http.Request) (page, error){ // the pages that change by themselves
		"queues": c.queuesPage, "queue": c.queuePage, "dead": c.deadPage, "replay": c.jobPage, "doctor": c.examinationPage,
	}[name]
	if screen == nil || name != "queues" && name != "doctor" && checkQueue(r) != nil {
		http.Error(w, "there is no such live page", http.StatusNotFound)
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(c.update(r, screen))
		return
	}
	if c.streams.Add(1) > mostStreams {
		c.streams.Add(-1)
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer c.streams.Add(-1)
	c.stream(w, r, screen)
}

func (c *Console) update(r *http.Request, screen func(*http.Request) (page, error)) []byte {
	ctx, cancel := context.WithTimeout(r.Context(), c.patience.asked)
	defer cancel()
	r = r.WithContext(ctx)
	p, err := screen(r)
	u := update{Title: p.Title}
	if err == nil {
		u.HTML, err = c.content(r, p)
	}
	if err != nil {
		u = update{Trouble: shown(err.Error())}
	}
	data, _ := json.Marshal(u) // strings always marshal
	return data
}

func (c *Console) stream(w http.ResponseWriter, r *http.Request, screen func(*http.Request) (page, error)) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // for nginx
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // for the next request of the connection
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		if _, err := c.recognise(r); err != nil { // the login ended, or the program no longer allows the visitor
			return
		}
		data := c.update(r, screen)
		deadline := control.SetWriteDeadline(time.Now().Add(slowBrowser))
		if deadline != nil && !errors.Is(deadline, http.ErrNotSupported) {
			return
		}
		if _, err := fmt.Fprintf(w, "event: page\ndata: %s\n\n", data); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-c.base.Done():
			return
		case <-tick.C:
		}
	}
}
