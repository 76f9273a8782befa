// Package developeroverview verifies API keys with Developer Overview, and reports responses: as middleware for net/http, or one request at a time. It
// needs the standard library alone, Go 1.19 or newer.
package developeroverview

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// The status in the log of a request whose client has gone away, as in nginx.
	clientGone = 499
	// The time between two lines in the log.
	quiet = 10 * time.Second
	// A response that still runs is reported before its entry in the log closes, after ten minutes.
	streamAfter = 570 * time.Second
	// The most accounts for which shadow mode enforces.
	maxEnforced = 100
)

// The values of Options.OnUnavailable, those of Options.Leases, and those of Options.Mode.
const (
	Deny    = "deny"
	Known   = "known"
	On      = "on"
	Off     = "off"
	Enforce = "enforce"
	Shadow  = "shadow"
)

// Pass lets requests run without an identity. It is a value of Options.Preflight, Options.Missing and Options.Unknown.
const Pass = "pass"

// Options configure a Verifier.
type Options struct {
	// URL is the origin of the Worker.
	URL string
	// Token is a service token with the scope "verify".
	Token string
	// OnUnavailable says what happens to requests while no connection to the Worker can be made: Deny (503, the default) or Known.
	OnUnavailable string
	// Timeout is the time for one decision. The default is one second.
	Timeout time.Duration
	// Leases says whether this process decides about busy keys by itself: On (the default, except in AWS Lambda) or Off.
	Leases string
	// KeyHeaders are the headers in which the key may be. The default is Authorization and X-API-Key.
	KeyHeaders []string
	// ClientIP returns the address of the client. The default is the address of the connection.
	ClientIP func(*http.Request) string
	// Scope returns the scope that a request needs, or an empty string.
	Scope func(*http.Request) string
	// Scopes returns further scopes that a request needs.
	Scopes func(*http.Request) Scopes
	// Cost returns the number of units that a request uses. The default is 1.
	Cost func(*http.Request) int
	// Route returns the route of a request for the log, or an empty string.
	Route func(*http.Request) string
	// Routes says what the routes need. A request that fits no row is denied with 404.
	Routes []Route
	// Skip returns whether a request runs without a decision.
	Skip func(*http.Request) bool
	// Preflight, Missing and Unknown let requests run without an identity if they are Pass: the preflight requests of browsers, requests without a
	// credential, and credentials that can only be somebody else's.
	Preflight, Missing, Unknown string
	// Mode is Enforce (the default) or Shadow: every request runs, at once and without an identity, and the service is told what it would have decided.
	Mode string
	// Compare is your own check. In shadow mode, the report says about which requests it decides in another way.
	Compare func(*http.Request) bool
	// Enforcement says for whom the decisions count in shadow mode. Requests then wait for them.
	Enforcement *Enforcement
	// Origins are the origins whose pages can read a denial. "*" are all.
	Origins []string
	// NoReport says that nobody will report the responses. The log shows the requests without one.
	NoReport bool
	// OnDenied responds to a denied request, in place of the problem of the service. The headers of the denial are set already.
	OnDenied func(http.ResponseWriter, *http.Request, Denial)
	// OnDecision is called with each decision.
	OnDecision func(Decision)
	// Logger writes what is wrong. The default is the standard logger.
	Logger interface{ Printf(string, ...interface{}) }
}

// Denial is what the service says to a client. Problem is JSON.
type Denial struct {
	Status  int
	Code    string
	Problem []byte
}

// Decision is a decision of the service. Account and Key are nil if they are not known.
type Decision struct {
	Allowed, Degraded bool
	Status            int
	Code              string
	Account           *Account
	Key               *Key
	Took              time.Duration
}

// Verified says who has sent a request. Degraded says that the request was not counted, because the service could not be reached.
type Verified struct {
	Account  *Account
	Key      *Key
	Degraded bool
	// Denied is closed when a later decision denies the key, for example because it was revoked. A long connection can end then.
	Denied <-chan struct{}
}

// Verifier verifies requests and reports responses. Create one for the whole process.
type Verifier struct {
	options Options
	rows    []row
	*core
}

// core is what the verifiers of a process share.
type core struct {
	options Options
	base    string
	client  *http.Client
	pause   time.Duration
	holder  string
	// newest is the newest token of this verifier and of those that WithToken made of it. Reports do not depend on the token of their decision.
	newest *atomic.Value
	// before is the verifier of which WithToken made this one. It takes the entries of its own leases.
	before  atomic.Pointer[core]
	known   *known
	leases  *leases
	reports *reports
	entries *reports
	shadow  *shadow
	shares  shares
	ends    ends
	stop    chan struct{}
	stopped sync.Once
	// beside is the number of decisions of shadow mode that run.
	beside atomic.Int64
	counts struct{ decisions, byLease, denied, degraded atomic.Int64 }

	mutex      sync.Mutex
	answers    int
	isAway     bool
	probeAt    time.Time
	probing    chan struct{}
	unsaid     int
	quietUntil time.Time
}

// New returns a Verifier. It fails if an option is missing or not valid.
func New(options Options) (*Verifier, error) {
	parsed, err := url.Parse(options.URL)
	if err != nil || parsed.Host == "" {
		return nil, fmt.Errorf("developeroverview: URL must be the origin of the Worker, not %q", options.URL)
	}
	if options.Token == "" {
		return nil, errors.New("developeroverview: Token is missing")
	}
	if options.OnUnavailable == "allow" {
		return nil, errors.New(`developeroverview: OnUnavailable "allow" would let requests through that nobody has checked; ` +
			`use "known": it lets credentials through that were allowed before`)
	}
	if err := oneOf("OnUnavailable", options.OnUnavailable, Deny, Known); err != nil {
		return nil, err
	}
	if err := oneOf("Leases", options.Leases, On, Off); err != nil {
		return nil, err
	}
	if options.Logger == nil {
		options.Logger = log.Default()
	}
	if options.Timeout == 0 {
		options.Timeout = time.Second
	}
	made := &core{
		options: options,
		base:    parsed.Scheme + "://" + parsed.Host,
		pause:   pauseOfDeny,
		holder:  newHolder(),
		newest:  &atomic.Value{},
		shares:  shares{accounts: map[string]*list.Element{}, used: map[string]*share{}},
		ends:    ends{open: map[string]map[chan struct{}]bool{}},
		stop:    make(chan struct{}),
		client: &http.Client{
			// Not http.DefaultTransport, which the program may have replaced.
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment,
				// All calls would share one connection of HTTP/2. If a network drops it without a word, all of them wait for it.
				TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
				MaxConnsPerHost:     ofAll.calls,
				MaxIdleConnsPerHost: ofAll.calls,
				IdleConnTimeout:     90 * time.Second,
				TLSHandshakeTimeout: 5 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	made.newest.Store(options.Token)
	if options.OnUnavailable == Known {
		made.pause = pauseOfKnown
		made.known = &known{credentials: map[string]*knownCredential{}}
	}
	made.reports = newReports("reports", made)
	made.entries = newReports("entries", made)
	made.shadow = newShadow(made)
	if options.Leases == On || (options.Leases == "" && os.Getenv("AWS_LAMBDA_FUNCTION_NAME") == "") {
		made.leases = newLeases(made.holder)
		go made.renewals()
	}
	return made.verifier(options)
}

func oneOf(name, value string, allowed ...string) error {
	for _, each := range append(allowed, "") {
		if value == each {
			return nil
		}
	}
	return fmt.Errorf("developeroverview: %s must be %q, not %q", name, allowed, value)
}

func (c *core) verifier(options Options) (*Verifier, error) {
	if err := oneOf("Mode", options.Mode, Enforce, Shadow); err != nil {
		return nil, err
	}
	if enforced := options.Enforcement; enforced != nil {
		switch {
		case options.Mode != Shadow:
			return nil, errors.New("developeroverview: Enforcement is an option of shadow mode")
		case len(enforced.Accounts) > maxEnforced:
			return nil, fmt.Errorf("developeroverview: Enforcement has more than %d accounts", maxEnforced)
		case !(enforced.Share >= 0 && enforced.Share <= 1):
			return nil, fmt.Errorf("developeroverview: the share of Enforcement must be from 0 to 1, not %v", enforced.Share)
		}
	}
	for name, value := range map[string]string{"Preflight": options.Preflight, "Missing": options.Missing, "Unknown": options.Unknown} {
		if err := oneOf(name, value, Deny, Pass); err != nil {
			return nil, err
		}
	}
	if options.KeyHeaders == nil {
		options.KeyHeaders = []string{"Authorization", "X-API-Key"}
	}
	return &Verifier{options: options, rows: rowsOf(options.Routes), core: c}, nil
}

// With returns a Verifier with other options for its requests. It shares the connections, the leases and the reports of v.
func (v *Verifier) With(change func(*Options)) (*Verifier, error) {
	options := v.options
	change(&options)
	return v.core.verifier(options)
}

// WithToken returns a Verifier like v with another token. It knows the credentials that v knows, and both send their reports with the new token. Close v ten
// minutes later, when its last responses are reported. Closing the new one closes v, too.
func (v *Verifier) WithToken(token string) (*Verifier, error) {
	options := v.options
	options.Token = token
	made, err := New(options)
	if err == nil {
		made.known = v.known
		made.newest = v.newest
		made.newest.Store(token)
		made.before.Store(v.core)
	}
	return made, err
}

type contextKey struct{}

// FromContext returns who has sent the request of a handler, or nil.
func FromContext(ctx context.Context) *Verified {
	verified, _ := ctx.Value(contextKey{}).(*Verified)
	return verified
}

// The names that servers for CGI, WSGI, PHP or Rack read as X-Verified-*.
var ofVerified = regexp.MustCompile(`(?i)^x[^a-z0-9]verified[^a-z0-9]`)

// Middleware verifies each request before the handler runs, and reports the response.
func (v *Verifier) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if ofVerified.MatchString(name) {
				delete(r.Header, name)
			}
		}
		decision, beside := v.decide(r)
		switch {
		case beside != nil:
			// The report waits for the decision, which has the receipt.
			v.run(next, w, r, &Answer{}, func(made Report) { go v.reportBeside(beside, made) })
		case decision == nil:
			next.ServeHTTP(w, r)
		case decision.Allowed:
			v.run(next, w, r, decision, func(made Report) {
				made.Receipt = decision.Receipt
				v.Report(made)
			})
		default:
			v.Deny(w, r, decision)
		}
	})
}

// run runs the handler of an admitted request, and reports its response.
func (v *Verifier) run(next http.Handler, w http.ResponseWriter, r *http.Request, decision *Answer, report func(Report)) {
	started := time.Now()
	for name, value := range decision.Headers {
		w.Header().Set(name, value)
	}
	var isReported atomic.Bool
	var route atomic.Value
	send := func(status int, isStreaming bool) {
		if !isReported.Swap(true) {
			known, _ := route.Load().(string)
			report(Report{Status: status, Duration: time.Since(started), Route: known, Streaming: isStreaming})
		}
	}
	// In shadow mode, the request runs as if nobody had asked.
	if decision.Allowed && r.Context().Err() != nil {
		send(clientGone, false)
		w.WriteHeader(clientGone)
		return
	}
	request, forget := r, func() {}
	if decision.Allowed {
		verified := &Verified{Account: decision.Account, Key: decision.Key, Degraded: decision.Degraded}
		verified.Denied, forget = v.ends.watch(decision.credential)
		request = r.WithContext(context.WithValue(r.Context(), contextKey{}, verified))
	}
	recorded := &recorder{ResponseWriter: w}
	recorded.status.Store(http.StatusOK)
	// Route reads the request, so it runs where the handler runs: when the response begins, or else at its end.
	recorded.begins = func() { route.Store(v.routeOf(request)) }
	stream := time.AfterFunc(streamAfter, func() { send(int(recorded.status.Load()), true) })
	recorded.report = func(status int) {
		stream.Stop()
		forget()
		send(status, false)
	}
	isDone := false
	defer func() {
		recorded.begin()
		switch {
		case recorded.isHijacked:
			// The connection reports when it is closed.
		case !isDone && !recorded.isWritten:
			// net/http closes the connection of a handler that panics, and sends no response.
			recorded.report(http.StatusInternalServerError)
		default:
			recorded.report(int(recorded.status.Load()))
		}
	}()
	next.ServeHTTP(recorded, request)
	isDone = true
}

// routeOf returns the route of a request. A function of the team that fails changes no response.
func (v *Verifier) routeOf(r *http.Request) (route string) {
	if v.options.Route == nil {
		return ""
	}
	defer v.recovered("Route")
	return v.options.Route(r)
}

// ends are the requests that run, by credential. A channel is closed when a later decision denies the key.
type ends struct {
	mutex sync.Mutex
	open  map[string]map[chan struct{}]bool
}

func (e *ends) watch(id string) (<-chan struct{}, func()) {
	denied := make(chan struct{})
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.open[id] == nil {
		e.open[id] = map[chan struct{}]bool{}
	}
	e.open[id][denied] = true
	return denied, func() {
		e.mutex.Lock()
		defer e.mutex.Unlock()
		if delete(e.open[id], denied); len(e.open[id]) == 0 {
			delete(e.open, id)
		}
	}
}

// note ends what runs for a credential, if the decision denies its key.
func (e *ends) note(id string, decision *Answer) {
	switch decision.Code {
	case "invalid_key", "revoked_key", "disabled_key", "expired_key", "account_suspended":
		e.mutex.Lock()
		defer e.mutex.Unlock()
		for denied := range e.open[id] {
			close(denied)
		}
		delete(e.open, id)
	}
}

// Flush sends all reports that wait.
func (v *Verifier) Flush() {
	v.core.flush()
}

func (v *core) flush() {
	// In shadow mode, decisions may still run beside their requests.
	for endsAt := time.Now().Add(v.options.Timeout); v.beside.Load() > 0 && time.Now().Before(endsAt); {
		time.Sleep(10 * time.Millisecond)
	}
	v.reports.flush()
	v.entries.flush()
	v.shadow.flush()
}

// Close sends all reports that wait, and gives leases back. Call it when the process stops.
func (v *Verifier) Close() {
	v.core.close()
}

func (v *core) isClosed() bool {
	select {
	case <-v.stop:
		return true
	default:
		return false
	}
}

func (v *core) close() {
	if before := v.before.Swap(nil); before != nil {
		before.close()
	}
	v.stopped.Do(func() { close(v.stop) })
	v.flush()
	v.giveAllBack()
}

// Stats are the counters of a Verifier.
type Stats struct {
	// Decisions, ByLease, Denied and Degraded are the numbers of all decisions, of those that this process made by its leases, of denials, and of
	// requests that passed while the Worker was away.
	Decisions, ByLease, Denied, Degraded int
	// Units and Unused are the units of all leases, and those that were given back.
	Units, Unused int
	// Waiting and Dropped are the numbers of reports that wait and that were dropped.
	Waiting, Dropped int
	// Away says that no connection to the Worker can be made.
	Away bool
}

// Stats returns the counters of this process.
func (v *Verifier) Stats() Stats {
	made := Stats{
		Decisions: int(v.counts.decisions.Load()),
		ByLease:   int(v.counts.byLease.Load()),
		Denied:    int(v.counts.denied.Load()),
		Degraded:  int(v.counts.degraded.Load()),
	}
	for _, each := range []*reports{v.reports, v.entries} {
		waiting, dropped := each.stats()
		made.Waiting += waiting
		made.Dropped += dropped
	}
	waiting, dropped := v.shadow.stats()
	made.Waiting += waiting
	made.Dropped += dropped
	if v.leases != nil {
		made.Units, made.Unused = v.leases.stats()
	}
	made.Away, _ = v.away()
	return made
}

// say writes to the log, at most one line in ten seconds.
func (c *core) say(err error) {
	c.mutex.Lock()
	c.unsaid++
	isQuiet, unsaid := time.Now().Before(c.quietUntil), c.unsaid
	if !isQuiet {
		c.unsaid, c.quietUntil = 0, time.Now().Add(quiet)
	}
	c.mutex.Unlock()
	if isQuiet {
		return
	}
	times := ""
	if unsaid > 1 {
		times = fmt.Sprintf(" (%d failures since the last message)", unsaid)
	}
	c.options.Logger.Printf("developeroverview: %v%s", err, times)
}

func newHolder() string {
	name, _ := os.Hostname()
	return strings.ToValidUTF8(fmt.Sprintf("%.60s/%d/%s", name, os.Getpid(), newID()[:8]), "")
}
