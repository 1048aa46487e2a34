package console

import (
	"errors"
	"net/http"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/ops"
)

var errNoPage = errors.New("there is no such page")

// formError refuses the content of a form or an address.
type formError struct{ text string }

func (e formError) Error() string { return e.text }

// codeOf is the status of a page about an error.
func codeOf(err error) int {
	var store *counter.StoreError
	var field *setting.FieldError
	switch {
	case errors.Is(err, errPanicked):
		return http.StatusInternalServerError
	case errors.As(err, new(forbiddenError)):
		return http.StatusForbidden
	case errors.As(err, new(formError)), errors.As(err, &field):
		return http.StatusUnprocessableEntity
	case errors.Is(err, ops.ErrNone), errors.Is(err, counter.ErrNotBlocked), errors.Is(err, broker.ErrNotFound),
		errors.Is(err, errNoPage):
		return http.StatusNotFound
	case errors.Is(err, errRuns), errors.As(err, new(heldError)), errors.Is(err, counter.ErrOver),
		errors.Is(err, counter.ErrNoRecord), errors.Is(err, deadletter.ErrBusy), errors.Is(err, deadletter.ErrUnsafe):
		return http.StatusConflict
	case errors.As(err, &store):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}
