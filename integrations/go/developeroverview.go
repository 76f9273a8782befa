// Package developeroverview is middleware for net/http: it verifies API keys with Developer Overview, and reports responses. It needs the standard
// library alone, Go 1.19 or newer.
package developeroverview

import (
	"bytes"
	"container/list"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// The name, the version and the number of the protocol (integrations/protocol.md) of this client.
	userAgent     = "developer-overview-go/0.1.0 (protocol 1)"
	maxKey        = 4096
	maxPath       = 1024
	probes        = 3
	probeTimeout  = time.Second
	betweenProbes = 100 * time.Millisecond
	// While the Worker is away, it is called at most once in this time: in the mode "known" to end soon, in the mode "deny" to spare it.
	pauseOfDeny  = 5 * time.Second
	pauseOfKnown = time.Second
	// The status in the log of a request whose client has gone away, as in nginx.
	clientGone = 499
	// The time between two lines in the log.
	quiet = 10 * time.Second
)

// The values of Options.OnUnavailable.
const (
	Deny  = "deny"
	Known = "known"
)

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
	// KeyHeaders are the headers in which the key may be. The default is Authorization and X-API-Key.
	KeyHeaders []string
	// ClientIP returns the address of the client. The default is the address of the connection.
	ClientIP func(*http.Request) string
	// Scope returns the scope that a request needs, or an empty string.
	Scope func(*http.Request) string
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
	// Origins are the origins whose pages can read a denial. "*" are all.
	Origins []string
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

// Account is the account of a verified key.
type Account struct {
	ID         string                 `json:"id"`
	ExternalID *string                `json:"external_id"`
	Name       string                 `json:"name"`
	Metadata   map[string]interface{} `json:"metadata"`
}

// Key is a verified key.
type Key struct {
	ID         string                 `json:"id"`
	ExternalID *string                `json:"external_id"`
	Name       string                 `json:"name"`
	Scopes     []string               `json:"scopes"`
	Metadata   map[string]interface{} `json:"metadata"`
	ExpiresAt  *string                `json:"expires_at"`
}

// Verified says who has sent a request. Degraded says that the request was not counted, because the service could not be reached.
type Verified struct {
	Account  *Account
	Key      *Key
	Degraded bool
}

type answer struct {
	Allowed    *bool             `json:"allowed"`
	Status     int               `json:"status"`
	Code       string            `json:"code"`
	Foreign    bool              `json:"foreign"`
	Degraded   bool              `json:"degraded"`
	Receipt    *string           `json:"receipt"`
	Account    *Account          `json:"account"`
	Key        *Key              `json:"key"`
	RateLimits []rateLimit       `json:"rate_limits"`
	Headers    map[string]string `json:"headers"`
	Problem    json.RawMessage   `json:"problem"`
	passes     bool
}

type rateLimit struct {
	Remaining int       `json:"remaining"`
	ResetsAt  time.Time `json:"resets_at"`
}

// Verifier verifies requests and reports responses. Create one for the whole process.
type Verifier struct {
	options Options
	base    string
	client  *http.Client
	pause   time.Duration
	known   *known
	reports *reports
	shares  shares
	rows    []row

	mutex      sync.Mutex
	answers    int
	isAway     bool
	probeAt    time.Time
	probing    chan struct{}
	unsaid     int
	quietUntil time.Time
	counts     Stats
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
	if options.OnUnavailable != "" && options.OnUnavailable != Deny && options.OnUnavailable != Known {
		return nil, fmt.Errorf("developeroverview: OnUnavailable must be %q or %q, not %q", Deny, Known, options.OnUnavailable)
	}
	for _, each := range []string{options.Preflight, options.Missing, options.Unknown} {
		if each != "" && each != Deny && each != Pass {
			return nil, fmt.Errorf("developeroverview: Preflight, Missing and Unknown must be %q or %q, not %q", Deny, Pass, each)
		}
	}
	if options.Logger == nil {
		options.Logger = log.Default()
	}
	if options.Timeout == 0 {
		options.Timeout = time.Second
	}
	if options.KeyHeaders == nil {
		options.KeyHeaders = []string{"Authorization", "X-API-Key"}
	}
	verifier := &Verifier{
		options: options,
		base:    parsed.Scheme + "://" + parsed.Host,
		pause:   pauseOfDeny,
		rows:    rowsOf(options.Routes),
		shares:  shares{accounts: map[string]*list.Element{}, used: map[string]*share{}},
		client: &http.Client{
			// Not http.DefaultTransport, which the program may have replaced.
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				ForceAttemptHTTP2:   true,
				MaxConnsPerHost:     ofAll.calls,
				MaxIdleConnsPerHost: 64,
				IdleConnTimeout:     90 * time.Second,
				TLSHandshakeTimeout: 5 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if options.OnUnavailable == Known {
		verifier.pause = pauseOfKnown
		verifier.known = &known{credentials: map[string]*knownCredential{}}
	}
	verifier.reports = newReports(verifier.say, func(body []byte) (int, []byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
		defer cancel()
		return verifier.post(ctx, "/team/v1/reports", body)
	})
	return verifier, nil
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
		decision := v.decide(r)
		if decision.passes {
			next.ServeHTTP(w, r)
			return
		}
		if !*decision.Allowed {
			v.deny(w, r, decision)
			return
		}
		started := time.Now()
		for name, value := range decision.Headers {
			w.Header().Set(name, value)
		}
		if r.Context().Err() != nil {
			v.report(decision, clientGone, time.Since(started), r)
			return
		}
		recorded := &recorder{ResponseWriter: w, status: http.StatusOK}
		verified := &Verified{Account: decision.Account, Key: decision.Key, Degraded: decision.Degraded}
		request := r.WithContext(context.WithValue(r.Context(), contextKey{}, verified))
		recorded.report = func(status int) { v.report(decision, status, time.Since(started), request) }
		isDone := false
		defer func() {
			switch {
			case recorded.isHijacked:
				// The connection reports when it is closed.
			case !isDone && !recorded.isWritten:
				// net/http closes the connection of a handler that panics, and sends no response.
				recorded.report(http.StatusInternalServerError)
			default:
				recorded.report(recorded.status)
			}
		}()
		next.ServeHTTP(recorded, request)
		isDone = true
	})
}

// Flush sends all reports that wait.
func (v *Verifier) Flush() { v.reports.flush() }

// Close sends all reports that wait. Call it when the process stops.
func (v *Verifier) Close() { v.reports.close() }

// Stats are the counters of a Verifier.
type Stats struct {
	// Decisions, Denied and Degraded are the numbers of all decisions, of denials, and of requests that passed while the Worker was away.
	Decisions, Denied, Degraded int
	// Waiting and Dropped are the numbers of reports that wait and that were dropped.
	Waiting, Dropped int
	// Away says that no connection to the Worker can be made.
	Away bool
}

// Stats returns the counters of this process.
func (v *Verifier) Stats() Stats {
	reports := v.reports.stats()
	v.mutex.Lock()
	defer v.mutex.Unlock()
	stats := v.counts
	stats.Waiting, stats.Dropped, stats.Away = reports.Waiting, reports.Dropped, v.isAway
	return stats
}

type call struct {
	Key       string  `json:"key"`
	Scope     string  `json:"scope,omitempty"`
	Scopes    *scopes `json:"scopes,omitempty"`
	Unknown   string  `json:"unknown,omitempty"`
	UserAgent string  `json:"user_agent,omitempty"`
	IP        string  `json:"ip,omitempty"`
	Method    string  `json:"method,omitempty"`
	Path      string  `json:"path,omitempty"`
	Cost      int     `json:"cost,omitempty"`
	RequestID string  `json:"request_id"`
}

type scopes struct {
	All []string `json:"all,omitempty"`
	Any []string `json:"any,omitempty"`
}

var passed = answer{passes: true}

var (
	methodForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$")
	brokenEnd  = regexp.MustCompile(`%[0-9A-Fa-f]?$`)
)

// decide decides about a request, and tells the team.
func (v *Verifier) decide(r *http.Request) *answer {
	started := time.Now()
	decision := v.decided(r)
	if decision.passes {
		return decision
	}
	v.mutex.Lock()
	v.counts.Decisions++
	if !*decision.Allowed {
		v.counts.Denied++
	} else if decision.Degraded {
		v.counts.Degraded++
	}
	v.mutex.Unlock()
	if v.options.OnDecision != nil {
		v.options.OnDecision(Decision{
			Allowed: *decision.Allowed, Degraded: decision.Degraded, Status: decision.Status, Code: decision.Code,
			Account: decision.Account, Key: decision.Key, Took: time.Since(started),
		})
	}
	return decision
}

func (v *Verifier) decided(r *http.Request) *answer {
	if v.options.Skip != nil && v.options.Skip(r) {
		return &passed
	}
	var sent []string
	for _, name := range v.options.KeyHeaders {
		sent = append(sent, r.Header.Values(name)...)
	}
	key, isOne := credentialOf(sent)
	if !isOne {
		return denied(http.StatusBadRequest, "invalid_header", "Invalid header", "The request has two different credentials.")
	}
	if key == "" && v.isPassed(r) {
		return &passed
	}
	needs, isListed := v.needsOf(r)
	mayBeForeign := v.options.Unknown == Pass && key != ""
	if !isListed && !mayBeForeign {
		return noRoute()
	}
	if len(key) > maxKey {
		decision := denied(http.StatusUnauthorized, "invalid_key", "API key invalid", "A credential has at most 4,096 characters.")
		decision.Headers = map[string]string{"WWW-Authenticate": `Bearer realm="api", error="invalid_token"`}
		return decision
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return unavailable(0)
	}
	// Path, method and address only describe the request: they are cut or left out.
	request := call{Key: key, Path: r.URL.EscapedPath(), IP: v.clientIP(r), RequestID: hex.EncodeToString(id)}
	if len(request.Path) > maxPath {
		request.Path = brokenEnd.ReplaceAllString(request.Path[:maxPath], "")
	}
	if methodForm.MatchString(r.Method) {
		request.Method = r.Method
	}
	if !isListed {
		needs = Needs{}
	}
	request.Scope, request.UserAgent = needs.Scope, r.UserAgent()
	if needs.Cost > 0 {
		request.Cost = needs.Cost
	}
	if len(needs.All)+len(needs.Any) > 0 {
		request.Scopes = &scopes{All: needs.All, Any: needs.Any}
	}
	if mayBeForeign {
		request.Unknown = Pass
	}
	ctx, cancel := context.WithTimeout(r.Context(), v.options.Timeout)
	defer cancel()
	decision := v.verify(ctx, request)
	switch {
	case mayBeForeign && decision.Foreign:
		return &passed
	case isListed || !*decision.Allowed:
		return decision
	}
	v.report(decision, http.StatusNotFound, 0, r)
	return noRoute()
}

func noRoute() *answer {
	return denied(http.StatusNotFound, "not_found", "Not found", "This API has no such route.")
}

// credentialOf returns the one credential in the values of headers, or an empty string if there is none. It returns false if there are two different ones.
func credentialOf(values []string) (string, bool) {
	chosen := ""
	var common []string
	for _, joined := range values {
		for _, value := range splitJoined(joined) {
			credentials := credentialsIn(value)
			if len(credentials) == 0 {
				continue
			}
			if !isBasic(value) && len(inBoth(credentials, credentials[:1])) < len(credentials) {
				return "", false
			}
			// Only the Worker can tell which part of Basic is the credential.
			if chosen == "" || (isBasic(value) && !isBasic(chosen)) {
				chosen = value
			}
			if common == nil {
				common = credentials
				continue
			}
			if common = inBoth(common, credentials); len(common) == 0 {
				return "", false
			}
		}
	}
	return chosen, true
}

// splitJoined splits the values of a header that was sent several times. A value with parameters, like `Token token="...", nonce="..."`, stays one.
func splitJoined(value string) []string {
	var parts []string
	start := 0
	for at := range value {
		if value[at] == ',' && !parameterForm.MatchString(value[at+1:]) {
			parts = append(parts, value[start:at])
			start = at + 1
		}
	}
	return append(parts, value[start:])
}

func inBoth(left, right []string) []string {
	both := []string{}
	for _, each := range left {
		for _, other := range right {
			if each == other {
				both = append(both, each)
			}
		}
	}
	return both
}

func isBasic(value string) bool {
	words := strings.Fields(value)
	return len(words) > 0 && strings.EqualFold(words[0], "basic")
}

// The schemes that are followed by the credential itself, and the form in which Rails sends a token.
var (
	schemeForm     = regexp.MustCompile(`(?i)^(?:bearer|token|api-?key)(?:\s+|$)`)
	tokenParameter = regexp.MustCompile(`(?i)(?:^|[\s;,])token=(?:"([^"]*)"|([^\s;,]*))`)
	parameterForm  = regexp.MustCompile(`^\s*[\w-]+=[^,=]`)
	notBase64      = regexp.MustCompile(`[^0-9A-Za-z+/]`)
)

// tokensOf returns the tokens in a credential, without its scheme. Only the form of Rails can have several.
func tokensOf(value string) []string {
	text := strings.TrimSpace(value)
	scheme := schemeForm.FindString(text)
	if scheme == "" {
		return []string{text}
	}
	token := strings.TrimSpace(text[len(scheme):])
	if !strings.HasPrefix(strings.ToLower(token), "token=") {
		return []string{token}
	}
	var tokens []string
	for _, parts := range tokenParameter.FindAllStringSubmatch(token, -1) {
		tokens = append(tokens, parts[1]+parts[2])
	}
	return tokens
}

// filledIn returns the texts that are not empty.
func filledIn(texts []string) []string {
	var filled []string
	for _, text := range texts {
		if text != "" {
			filled = append(filled, text)
		}
	}
	return filled
}

// credentialsIn returns what may be the credential in the value of a header: the token, or the user and the password of Basic.
func credentialsIn(value string) []string {
	if !isBasic(value) {
		return filledIn(tokensOf(value))
	}
	encoded := strings.Join(strings.Fields(value)[1:], "")
	// Servers skip what is not base64.
	plain := notBase64.ReplaceAllString(strings.NewReplacer("-", "+", "_", "/").Replace(encoded), "")
	decoded, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil {
		return []string{strings.TrimSpace(value)}
	}
	return filledIn(strings.SplitN(string(decoded), ":", 2))
}

func (v *Verifier) clientIP(r *http.Request) string {
	if v.options.ClientIP != nil {
		return addressIn(v.options.ClientIP(r))
	}
	return addressIn(r.RemoteAddr)
}

// addressIn returns an address without port, brackets and zone, and an IPv4 address without its IPv6 form. It returns "" for other text.
func addressIn(text string) string {
	text = strings.TrimSpace(text)
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	text, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), "%")
	address := net.ParseIP(text)
	if address == nil {
		return ""
	}
	return address.String()
}

// verify decides about a request until ctx ends.
func (v *Verifier) verify(ctx context.Context, request call) *answer {
	id := idOf(request.Key)
	v.probeIfDue(ctx)
	if away, left := v.away(); away {
		return v.withoutWorker(id, request, left)
	}
	// A request waits for a slot for half of its time, so that the call has the other half.
	turn, cancel := context.WithTimeout(ctx, v.options.Timeout/2)
	defer cancel()
	if decision := v.shares.run(turn, id, func(key *share) *answer { return v.ask(ctx, id, key, request) }); decision != nil {
		return decision
	}
	return unavailable(0)
}

// isLocal returns whether this machine has failed. Clients can bring that about with many connections, so it never shows that the Worker is away.
func isLocal(err error) bool {
	for _, each := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN} {
		if errors.Is(err, each) {
			return true
		}
	}
	return false
}

// canOpen returns whether this process can open files. If it cannot, looking up a name fails as if there were no such name.
func canOpen() bool {
	file, err := os.Open(os.DevNull)
	if err != nil {
		return false
	}
	return file.Close() == nil
}

// failure is a call without a decision. isLost: the connection failed. again: the call can be sent once more.
type failure struct {
	error
	isLost, again bool
}

// ask sends a call that failed once more with the same request_id, so that the request counts once.
func (v *Verifier) ask(ctx context.Context, id string, key *share, request call) *answer {
	body, err := json.Marshal(request)
	if err != nil {
		return unavailable(0)
	}
	started := time.Now()
	for isFirst := true; ; isFirst = false {
		decision, text, failed := v.decision(ctx, body)
		if failed == nil {
			v.shares.note(id, decision)
			v.mutex.Lock()
			if isRemoving(decision.Status) {
				key.deniedAt = time.Now()
			}
			// An older answer never brings back a credential that was denied meanwhile.
			isCurrent := !*decision.Allowed || started.After(key.deniedAt)
			v.mutex.Unlock()
			if v.known != nil && isCurrent {
				v.known.note(id, request.IP, decision, text)
			}
			return decision
		}
		if isFirst && failed.again && ctx.Err() == nil {
			continue
		}
		v.say(failed)
		if failed.isLost {
			v.probe(ctx, probes)
			if away, left := v.away(); away {
				return v.withoutWorker(id, request, left)
			}
		}
		return unavailable(0)
	}
}

func (v *Verifier) decision(ctx context.Context, body []byte) (*answer, []byte, *failure) {
	status, text, err := v.post(ctx, "/team/v1/verify", body)
	switch {
	case err != nil && (ctx.Err() != nil || isTimeout(err)):
		// A time-out, or a client that has gone, says nothing about other calls.
		return nil, nil, &failure{error: errors.New("the Worker did not respond in time")}
	case err != nil:
		return nil, nil, &failure{error: err, isLost: status == 0 && !isLocal(err), again: true}
	case status != http.StatusOK:
		// A service token that the Worker rejects is an error of this service, never one of the client.
		again := status >= 500 || status == http.StatusTooManyRequests
		return nil, nil, &failure{error: fmt.Errorf("the Worker responded with %d: %.500s", status, text), again: again}
	}
	decision := &answer{}
	// Only a 200 with "allowed" is a decision.
	if err := json.Unmarshal(text, decision); err != nil || decision.Allowed == nil {
		return nil, nil, &failure{error: errors.New("the answer is not a decision"), again: true}
	}
	return decision, text, nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// post returns the status 0 if there was no answer.
func (v *Verifier) post(ctx context.Context, path string, body []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+v.options.Token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", userAgent)
	return v.do(request)
}

func (v *Verifier) do(request *http.Request) (int, []byte, error) {
	response, err := v.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	// Any answer shows that the Worker is there.
	v.mutex.Lock()
	v.answers++
	v.isAway = false
	v.mutex.Unlock()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// away returns whether no connection to the Worker can be made, and what is left of the pause.
func (v *Verifier) away() (bool, time.Duration) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.isAway, time.Until(v.probeAt)
}

// withoutWorker lets a credential pass that was allowed before, or denies the request.
func (v *Verifier) withoutWorker(id string, request call, left time.Duration) *answer {
	if v.known != nil {
		if found := v.known.find(id, request); found != nil {
			allowed := true
			return &answer{Allowed: &allowed, Status: http.StatusOK, Degraded: true, Account: found.Account, Key: found.Key}
		}
	}
	return unavailable(left)
}

// probeIfDue probes once when the pause is over. Only one request waits for the probe.
func (v *Verifier) probeIfDue(ctx context.Context) {
	v.mutex.Lock()
	isDue := v.isAway && v.probing == nil && !time.Now().Before(v.probeAt)
	v.mutex.Unlock()
	if isDue {
		v.probe(ctx, 1)
	}
}

// probe sends probes. If all of them fail, the Worker is away. Calls at the same time share one series of probes.
func (v *Verifier) probe(ctx context.Context, count int) {
	v.mutex.Lock()
	done := v.probing
	if done == nil {
		done = make(chan struct{})
		v.probing = done
		go v.sendProbes(count, v.answers, done)
	}
	v.mutex.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (v *Verifier) sendProbes(count, before int, done chan struct{}) {
	defer close(done)
	for sent := 0; sent < count; sent++ {
		if sent > 0 {
			time.Sleep(betweenProbes)
		}
		err := v.sendProbe()
		// A machine that cannot open a connection knows nothing about the Worker.
		isOver := err != nil && (isLocal(err) || !canOpen())
		v.mutex.Lock()
		isOver = isOver || v.answers != before
		if !isOver && sent == count-1 {
			v.isAway, v.probeAt = true, time.Now().Add(v.pause)
		}
		if isOver || sent == count-1 {
			v.probing = nil
		}
		v.mutex.Unlock()
		if isOver {
			return
		}
	}
}

func (v *Verifier) sendProbe() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+"/health", nil)
	if err == nil {
		_, _, err = v.do(request)
	}
	return err
}

// say writes to the log, at most one line in ten seconds.
func (v *Verifier) say(err error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.unsaid++
	if time.Now().Before(v.quietUntil) {
		return
	}
	times := ""
	if v.unsaid > 1 {
		times = fmt.Sprintf(" (%d failures since the last message)", v.unsaid)
	}
	v.unsaid, v.quietUntil = 0, time.Now().Add(quiet)
	v.options.Logger.Printf("developeroverview: %v%s", err, times)
}

func unavailable(left time.Duration) *answer {
	decision := denied(http.StatusServiceUnavailable, "unavailable", "Unavailable", "The service cannot verify API keys right now. Try again in a moment.")
	seconds := int64((left + time.Second - 1) / time.Second)
	if seconds < 1 {
		seconds = 1
	}
	decision.Headers = map[string]string{"Retry-After": strconv.FormatInt(seconds, 10)}
	return decision
}

func denied(status int, code, title, detail string) *answer {
	allowed := false
	problem, _ := json.Marshal(map[string]interface{}{"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code})
	return &answer{Allowed: &allowed, Status: status, Code: code, Problem: problem}
}

func (v *Verifier) report(decision *answer, status int, duration time.Duration, r *http.Request) {
	if decision.Receipt == nil {
		return
	}
	made := report{Receipt: *decision.Receipt, Status: status, DurationMs: float64(duration.Microseconds()) / 1000, at: time.Now()}
	if v.options.Route != nil {
		made.Route = v.options.Route(r)
	}
	v.reports.add(made)
}
