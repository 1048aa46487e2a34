package console

import (
	"crypto/rand"
	"slices"
	"sync"
)

// result says what a change really did. The page that follows shows it.
type result struct {
	OK   bool
	Text string
	Link string // to a file or a page; empty: none
	Name string // of the link
}

// mostResults are kept.
const mostResults = 200

// results are the results of the latest changes, by ids that cannot be guessed.
type results struct {
	mu   sync.Mutex
	ids  []string
	byID map[string]result
}

func (s *results) put(r result) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = rand.Text()
	if s.byID == nil {
		s.byID = map[string]result{}
	}
	s.ids, s.byID[id] = append(s.ids, id), r
	if len(s.ids) > mostResults {
		delete(s.byID, s.ids[0])
		s.ids = slices.Delete(s.ids, 0, 1)
	}
	return id
}

func (s *results) get(id string) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.byID[id]; ok {
		return &r
	}
	return nil
}
