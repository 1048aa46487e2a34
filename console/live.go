package console

import (
	"encoding/json"
	"net/http"
	"time"
)

// liveEvery is how often an open page asks for its newest content: see console.js.
const liveEvery = 2 * time.Second

// update is the newest content of a page.
type update struct {
	Title string `json:"title"`
	HTML  string `json:"html"`
}

// screens are the pages that change by themselves.
func (c *Console) screens() map[string]func(*http.Request) (page, error) {
	return map[string]func(*http.Request) (page, error){
		"queues": c.queuesPage, "queue": c.queuePage, "dead": c.deadPage, "lanes": c.lanesPage, "replay": c.replayPage,
		"doctor": c.examinationPage,
	}
}

// live sends the newest content of an open page.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	screen := c.screens()[r.URL.Query().Get("screen")]
	if screen == nil {
		http.Error(w, "there is no such live page", http.StatusNotFound)
		return
	}
	p, err := screen(r)
	content := ""
	if err == nil {
		content, err = c.content(r, p)
	}
	if err != nil {
		http.Error(w, err.Error(), codeOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(update{Title: p.Title, HTML: content}) // a browser that is gone needs no error
}
