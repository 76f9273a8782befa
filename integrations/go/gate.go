package developeroverview

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Which requests are decided, what they need, and what a denial says.

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
	parts  []string
	needs  Needs
}

// rowsOf returns rows like "GET /orders/:id" in parts. "*" at the end stands for all that follows.
func rowsOf(routes []Route) []row {
	var rows []row
	for _, route := range routes {
		method, path, _ := strings.Cut(route.Row, " ")
		rows = append(rows, row{strings.ToUpper(method), strings.Split(strings.TrimSuffix(strings.ToLower(path), "/"), "/")[1:], route.Needs})
	}
	return rows
}

var (
	ambiguous = regexp.MustCompile(`(?i)[#\\;]|//|%(?:2f|5c|3b|25(?:2e|2f|5c|3b))`)
	control   = regexp.MustCompile(`\p{Cc}`)
)

// segmentsOf returns the segments of a path in lower case. It returns false for a path that servers read in different ways: with an encoded slash, dots, a
// second slash, a backslash, a semicolon, a fragment or a control character.
func segmentsOf(path string) ([]string, bool) {
	if !strings.HasPrefix(path, "/") || ambiguous.MatchString(path) {
		return nil, false
	}
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")[1:]
	for index, segment := range segments {
		plain, err := url.PathUnescape(segment)
		if err != nil || plain == "." || plain == ".." || control.MatchString(plain) {
			return nil, false
		}
		segments[index] = strings.ToLower(plain)
	}
	return segments, true
}

// fits returns whether a row fits a request. A row for GET fits HEAD.
func (each row) fits(method string, segments []string) bool {
	if each.method != "*" && each.method != method && !(each.method == http.MethodGet && method == http.MethodHead) {
		return false
	}
	fixed := each.parts
	if len(fixed) > 0 && fixed[len(fixed)-1] == "*" {
		fixed = fixed[:len(fixed)-1]
		if len(segments) < len(fixed) {
			return false
		}
	} else if len(segments) != len(fixed) {
		return false
	}
	for index, part := range fixed {
		if part != segments[index] && (!strings.HasPrefix(part, ":") || segments[index] == "") {
			return false
		}
	}
	return true
}

// needsOf returns what a request needs, or false if there is a table of routes and no row fits. What a row does not say, the functions say.
func (v *Verifier) needsOf(r *http.Request) (Needs, bool) {
	needs := Needs{}
	if v.options.Scope != nil {
		needs.Scope = v.options.Scope(r)
	}
	if v.options.Scopes != nil {
		scopes := v.options.Scopes(r)
		needs.All, needs.Any = scopes.All, scopes.Any
	}
	if v.options.Cost != nil {
		needs.Cost = v.options.Cost(r)
	}
	if v.options.Routes == nil {
		return needs, true
	}
	segments, isPlain := segmentsOf(sentPath(r))
	for _, each := range v.rows {
		if !isPlain || !each.fits(r.Method, segments) {
			continue
		}
		own := each.needs
		if own.Scope == "" {
			own.Scope = needs.Scope
		}
		if own.Cost == 0 {
			own.Cost = needs.Cost
		}
		if len(own.All)+len(own.Any) == 0 {
			own.All, own.Any = needs.All, needs.Any
		}
		return own, true
	}
	return needs, false
}

// isPassed returns whether a request without a credential runs without an identity.
func (v *Verifier) isPassed(r *http.Request) bool {
	isPreflight := r.Method == http.MethodOptions && r.Header.Get("Origin") != "" &&
		r.Header.Get("Access-Control-Request-Method") != "" && r.ContentLength == 0 && r.Header.Get("Upgrade") == ""
	return v.options.Missing == Pass || (v.options.Preflight == Pass && isPreflight)
}

// Decide decides about a request as Middleware does. It returns nil if the request runs without an identity, because the options say so: in shadow mode,
// unless Enforcement names its account. Send a denial with Deny, and report the response to an admitted request with Report.
func (v *Verifier) Decide(r *http.Request) *Answer {
	decision, beside := v.decide(r)
	if beside != nil {
		go v.entered(beside)
	}
	return decision
}

func (v *Verifier) decided(r *http.Request) *Answer {
	if v.options.Skip != nil && v.options.Skip(r) {
		return nil
	}
	var sent []string
	for _, name := range v.options.KeyHeaders {
		sent = append(sent, r.Header.Values(name)...)
	}
	key, isOne := credentialOf(sent)
	if !isOne {
		return v.told(denied(http.StatusBadRequest, "invalid_header", "Invalid header", "The request has two different credentials."), time.Now())
	}
	if key == "" && v.isPassed(r) {
		return nil
	}
	needs, isListed := v.needsOf(r)
	mayBeForeign := v.options.Unknown == Pass && key != ""
	if !isListed && !mayBeForeign {
		return v.told(noRoute(), time.Now())
	}
	request := Request{Key: key, Method: r.Method, Path: r.URL.EscapedPath(), IP: r.RemoteAddr, UserAgent: r.UserAgent()}
	if v.options.ClientIP != nil {
		request.IP = v.options.ClientIP(r)
	}
	if isListed {
		request.Scope, request.Cost = needs.Scope, needs.Cost
		if len(needs.All)+len(needs.Any) > 0 {
			request.Scopes = &Scopes{All: needs.All, Any: needs.Any}
		}
	}
	if mayBeForeign {
		request.Unknown = Pass
	}
	if v.options.Mode == Shadow {
		if request.Shadow = v.options.Enforcement; request.Shadow == nil {
			request.Shadow = &Enforcement{}
		}
	}
	if v.options.NoReport {
		request.Report = new(bool)
	}
	decision := v.Verify(r.Context(), request)
	switch {
	case mayBeForeign && decision.Foreign:
		return nil
	case isListed || !decision.Allowed:
		return decision
	}
	refused := noRoute()
	refused.Enforced, refused.credential = decision.Enforced, decision.credential
	if v.options.Mode == Shadow && !decision.Enforced {
		// The request runs, and its own response is reported.
		refused.Receipt = decision.Receipt
		return refused
	}
	v.Report(Report{Receipt: decision.Receipt, Status: http.StatusNotFound})
	return refused
}

func noRoute() *Answer {
	return denied(http.StatusNotFound, "not_found", "Not found", "This API has no such route.")
}

// Deny sends a denial. A page of an allowed origin can read it.
func (v *Verifier) Deny(w http.ResponseWriter, r *http.Request, decision *Answer) {
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
