package api

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/cmd/internal/api/tokens"
	"debrief/events"
	"debrief/events/service"
)

// call is a request to a route.
type call struct {
	ctx     context.Context
	handler *handler
	route   *route
	token   *tokens.Token
	path    func(name string) string // parameters of the path; empty for one that the route does not have
	query   url.Values
	header  http.Header // of the request
	remote  string      // address of the sender
	body    []byte
	unknown []string // fields of the body that the type does not have

	status int         // of the response; 0: that of the route
	reply  http.Header // headers of the response
}

// checkQuery returns an error for an unknown parameter, because a typing error would otherwise select everything, and for an invalid value.
func (c *call) checkQuery() error {
	known := c.route.query
	if c.route.in != nil {
		known = append(slices.Clip(known), strictParameter)
	}
	for name, values := range c.query {
		i := slices.IndexFunc(known, func(p parameter) bool { return p.name == name })
		switch {
		case name == "":
			return invalid("query", "has a parameter without a name")
		case i < 0:
			return invalid(name, "unknown parameter")
		case len(values) > 1:
			return invalid(name, "is there more than once")
		case values[0] != "": // an empty parameter is a missing one
			if err := known[i].check(values[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns an error for an invalid value of a parameter.
func (p *parameter) check(value string) error {
	n, err := strconv.Atoi(value)
	switch {
	case p.values != nil && !slices.Contains(p.values, value):
		return invalid(p.name, "want one of "+strings.Join(p.values, ", "))
	case p.kind == "boolean" && !slices.Contains(booleans, value):
		return invalid(p.name, fmt.Sprintf("want true or false, got %.40q", value))
	case p.kind != "integer":
		return nil
	case p.high == math.MaxInt && (err != nil || n < p.low):
		return invalid(p.name, fmt.Sprintf("want a number of at least %d, got %.40q", p.low, value))
	case err != nil || n < p.low || n > p.high:
		return invalid(p.name, fmt.Sprintf("want a number from %d to %d, got %.40q", p.low, p.high, value))
	}
	return nil
}

// integer returns a parameter that is a number, or the default for a missing one.
func (c *call) integer(name string, missing int) int {
	if n, err := strconv.Atoi(c.query.Get(name)); err == nil { // checkQuery has refused invalid values
		return n
	}
	return missing
}

// boolean returns a parameter that is true or false. A missing parameter is false.
func (c *call) boolean(name string) bool {
	v := c.query.Get(name)
	return v == "1" || v == "true"
}

// time returns a parameter that is a time in RFC 3339. A missing parameter is the zero time.
func (c *call) time(name string) (t time.Time, err error) {
	if text := c.query.Get(name); text != "" {
		if t, err = time.Parse(time.RFC3339, text); err != nil {
			return t, invalid(name, "want a time such as 2026-11-20T15:04:05Z")
		}
	}
	return t, nil
}

// duration returns a parameter that is a duration up to limit. A missing parameter is 0.
func (c *call) duration(name string, limit time.Duration) (time.Duration, error) {
	text := c.query.Get(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > limit {
		return 0, invalid(name, fmt.Sprintf("want a duration up to %s, such as 30s, got %.40q", limit, text))
	}
	return d, nil
}

// decode decodes the body. Unknown fields are an error with ?strict=1; else the reply lists them.
func (c *call) decode(into any) error {
	body := c.body
	if len(body) == 0 && c.route.optionalBody {
		return nil
	}
	var err error
	if c.boolean("strict") {
		err = events.DecodeStrict(body, into)
	} else {
		c.unknown, err = events.DecodeKnown(body, into)
	}
	if err != nil {
		return service.NewError(http.StatusBadRequest, err.Error())
	}
	return nil
}

// checkSelection returns an error for an unknown or an empty field of an object that selects what a request removes. A request that
// ignored the field would remove more: all of a playbook in place of one session. path is the path of the object, with a dot at its end; ""
// is the body.
func (c *call) checkSelection(path string, object map[string]any) error {
	if len(c.unknown) > 0 {
		return invalid(c.unknown[0], "unknown field")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if v := object[name]; v == "" || v == nil {
			name = strings.ToLower(name) // the decoder accepts any case, but the reference has lower case
			return invalid(path+name, "is empty: leave the field out, or give a value")
		}
	}
	return nil
}

// maxKey bounds an Idempotency-Key, in bytes.
const maxKey = 256

// key returns the Idempotency-Key of the request, or "".
func (c *call) key() (string, error) {
	k := c.header.Get("Idempotency-Key")
	if len(k) > maxKey {
		return "", invalid("Idempotency-Key", fmt.Sprintf("want at most %d bytes, got %d", maxKey, len(k)))
	}
	return k, nil
}

// eventID returns the id of an event. It depends only on its kind, its place, the token and the Idempotency-Key, so a repeated request has
// the same one. Without a key it is random.
func (c *call) eventID(kind, place, key string) events.ID {
	if key == "" {
		return events.NewID()
	}
	return events.Hash("api", kind, place, c.token.Owner, key)
}

// location sets the header Location to the path of the object that the request created. The segments are below prefix.
func (c *call) location(segments ...string) {
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	c.reply.Set("Location", prefix+"/"+strings.Join(segments, "/"))
}
