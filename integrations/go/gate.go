package developeroverview

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Which requests are decided, what they need, and what a denial says.

// Pass lets requests run without an identity. It is a value of Options.Preflight, Options.Missing and Options.Unknown.
const Pass = "pass"

// Needs are what a request needs and uses. All and Any are further scopes: all of them, and at least one of them.
type Needs struct {
	Scope string
	All   []string
	Any   []string
	Cost  int
}

// The headers that a page of another origin may read on a denial.
const exposed = "RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"

// Route says what the requests of a route need. Row is like "GET /orders/:id", and the first row that fits counts.
type Route struct {
	Row string
	Needs
}

type row struct {
	method string
	form   *regexp.Regexp
	needs  Needs
}

// rowsOf returns the patterns of rows like "GET /orders/:id". Servers differ in how they read case and slashes, so a pattern fits all of them.
func rowsOf(routes []Route) []row {
	var rows []row
	for _, route := range routes {
		method, path, _ := strings.Cut(route.Row, " ")
		parts := strings.Split(path, "/")
		for index, part := range parts {
			switch {
			case strings.HasPrefix(part, ":"):
				parts[index] = "[^/]+"
			case part == "*":
				parts[index] = ".*"
			default:
				parts[index] = regexp.QuoteMeta(part)
			}
		}
		rows = append(rows, row{strings.ToUpper(method), regexp.MustCompile("(?i)^" + strings.Join(parts, "/+") + "/*$"), route.Needs})
	}
	return rows
}

// needsOf returns what a request needs, or false if there is a table of routes and no row fits.
func (v *Verifier) needsOf(r *http.Request) (Needs, bool) {
	needs := Needs{}
	if v.options.Scope != nil {
		needs.Scope = v.options.Scope(r)
	}
	if v.options.Cost != nil {
		needs.Cost = v.options.Cost(r)
	}
	if v.options.Routes == nil {
		return needs, true
	}
	path := r.URL.EscapedPath()
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	for _, each := range v.rows {
		if (each.method == "*" || each.method == r.Method) && each.form.MatchString(path) {
			return each.needs, true
		}
	}
	return needs, false
}

// isPassed returns whether a request without a credential runs without an identity.
func (v *Verifier) isPassed(r *http.Request) bool {
	isPreflight := r.Method == http.MethodOptions && r.Header.Get("Origin") != "" &&
		r.Header.Get("Access-Control-Request-Method") != "" && r.ContentLength == 0
	return v.options.Missing == Pass || (v.options.Preflight == Pass && isPreflight)
}

// deny sends a denial. A page of an allowed origin can read it.
func (v *Verifier) deny(w http.ResponseWriter, r *http.Request, decision *answer) {
	for name, value := range decision.Headers {
		w.Header().Set(name, value)
	}
	origin := r.Header.Get("Origin")
	if v.options.Origins != nil {
		w.Header().Add("Vary", "Origin")
	}
	for _, each := range v.options.Origins {
		if origin != "" && (each == "*" || each == origin) {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Expose-Headers", exposed)
		}
	}
	if v.options.OnDenied != nil {
		v.options.OnDenied(w, r, Denial{Status: decision.Status, Code: decision.Code, Problem: decision.Problem})
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(decision.Status)
	_, _ = w.Write(decision.Problem)
}
