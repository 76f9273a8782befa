package developeroverview

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Shadow mode: every request runs, and the service is told what it would have decided, in groups.

const (
	maxGroups = 500
	// A shorter text is no secret.
	minSecret = 4
)

// detached has the values of a context, and no end. A decision beside a request goes on when the request has ended.
type detached struct{ context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }

// decide decides about a request. In shadow mode, the request runs at once, and the channel gets the decision, or nil. Only if Enforcement names its account,
// the decision counts.
func (v *Verifier) decide(r *http.Request) (*Answer, <-chan *Answer) {
	if v.options.Mode != Shadow {
		return v.decided(r), nil
	}
	asked := r.Clone(detached{r.Context()})
	beside := make(chan *Answer, 1)
	v.beside.Add(1)
	if v.options.Enforcement == nil {
		go v.note(beside, asked, func() *Answer { return v.decidedSafely(asked) })
		return nil, beside
	}
	decision := v.decidedSafely(asked)
	if decision == nil || decision.Enforced {
		v.beside.Add(-1)
		return decision, nil
	}
	go v.note(beside, asked, func() *Answer { return decision })
	return nil, beside
}

// decidedSafely decides about a request. A function of the team that fails changes nothing in shadow mode.
func (v *Verifier) decidedSafely(r *http.Request) (decision *Answer) {
	defer v.recovered("shadow mode")
	return v.decided(r)
}

func (v *Verifier) recovered(name string) {
	if failed := recover(); failed != nil {
		v.say(fmt.Errorf("%s has failed: %v", name, failed))
	}
}

// note notes a decision beside what the team's own check says, and sends it on.
func (v *Verifier) note(beside chan<- *Answer, r *http.Request, decide func() *Answer) {
	defer v.beside.Add(-1)
	decision := decide()
	beside <- decision
	if decision == nil {
		return
	}
	own := v.compared(r)
	var sent []string
	for _, name := range v.options.KeyHeaders {
		sent = append(sent, r.Header.Values(name)...)
	}
	key, _ := credentialOf(sent)
	v.shadow.note(decision, own, idOf(key), Request{Method: r.Method, Path: withoutCredentials(sentPath(r), sent)}.described())
}

// withoutCredentials returns a path in which no credential can be read. values: those of the headers in which it may be.
func withoutCredentials(path string, values []string) string {
	for _, joined := range values {
		if len(joined) > maxHeader {
			return "/***"
		}
		for _, value := range splitJoined(joined) {
			for _, secret := range credentialsIn(value) {
				if len(secret) < minSecret {
					continue
				}
				path = strings.ReplaceAll(path, secret, "***")
				// A client can encode characters of it.
				if plain, err := url.PathUnescape(path); err != nil || strings.Contains(plain, secret) {
					return "/***"
				}
			}
		}
	}
	return path
}

func (v *Verifier) compared(r *http.Request) (own string) {
	own = "not_compared"
	if v.options.Compare == nil {
		return own
	}
	defer v.recovered("Compare")
	if v.options.Compare(r) {
		return "allowed"
	}
	return "denied"
}

// entered notes the entry of a request that a lease has decided. Nobody will report its response.
func (v *Verifier) entered(beside <-chan *Answer) {
	if decision := <-beside; decision != nil && strings.HasPrefix(decision.Receipt, ofLeaseReceipt) {
		v.reportEntry(decision.Receipt, nil)
	}
}

func (v *Verifier) reportBeside(beside <-chan *Answer, made Report) {
	if decision := <-beside; decision != nil {
		made.Receipt = decision.Receipt
		v.Report(made)
	}
}

// group is what a group of requests has in common.
type group struct {
	Account    *string `json:"account"`
	Key        *string `json:"key"`
	Code       *string `json:"code"`
	Own        string  `json:"own"`
	Credential *string `json:"credential"`
}

// finding is a group with the number of its requests and the latest of them.
type finding struct {
	group
	Count  int    `json:"count"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
}

type message struct {
	Holder   string     `json:"holder"`
	Sequence int        `json:"sequence"`
	Findings []*finding `json:"findings"`
}

// shadow has the findings of a process that wait.
type shadow struct {
	core    *core
	sending sync.Mutex
	// sent is a message that was lost. It is sent again with the same number, so that it counts once.
	sent *message

	mutex    sync.Mutex
	groups   map[string]*finding
	sequence int
	dropped  int
}

func newShadow(core *core) *shadow {
	made := &shadow{core: core, groups: map[string]*finding{}}
	go core.everySecond(made.flush)
	return made
}

func (s *shadow) stats() (waiting, dropped int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.groups), s.dropped
}

func (s *shadow) note(decision *Answer, own, id string, request Request) {
	made := group{Own: own}
	if !decision.Allowed {
		made.Code = &decision.Code
	}
	// Requests about which nobody disagrees are only counted.
	if (!decision.Allowed || own == "denied") && decision.Account != nil {
		made.Account = &decision.Account.ID
	}
	if (!decision.Allowed || own == "denied") && decision.Key != nil {
		made.Key = &decision.Key.ID
	}
	if own == "allowed" && decision.Code == "invalid_key" {
		credential := hex.EncodeToString([]byte(id))[:16]
		made.Credential = &credential
	}
	name, _ := json.Marshal(made)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.groups[string(name)]
	if found == nil {
		if len(s.groups) >= maxGroups {
			s.dropped++
			return
		}
		found = &finding{group: made}
		s.groups[string(name)] = found
	}
	found.Count++
	found.Method, found.Path = request.Method, request.Path
}

// flush sends what waits. It returns when it is sent, or when the Worker does not take it now.
func (s *shadow) flush() {
	s.sending.Lock()
	defer s.sending.Unlock()
	// A message that was lost, and then what waits. What comes meanwhile goes with the next flush.
	rounds := 1
	if s.sent != nil {
		rounds = 2
	}
	for ; rounds > 0 && (s.sent != nil || s.take()); rounds-- {
		body, _ := json.Marshal(s.sent)
		ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
		status, text, err := s.core.post(ctx, "/shadow", body)
		cancel()
		if status != http.StatusNoContent {
			s.core.say(fmt.Errorf("the Worker responded to findings of shadow mode with %d: %.500s %v", status, text, err))
		}
		switch {
		case err != nil || status >= 500 || saysNothing(status):
			return
		case status != http.StatusNoContent:
			s.mutex.Lock()
			s.dropped += len(s.sent.Findings)
			s.mutex.Unlock()
		}
		s.sent = nil
	}
}

// take makes a message of what waits. It returns false if nothing waits.
func (s *shadow) take() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.groups) == 0 {
		return false
	}
	s.sequence++
	s.sent = &message{Holder: s.core.holder, Sequence: s.sequence}
	for _, each := range s.groups {
		s.sent.Findings = append(s.sent.Findings, each)
	}
	s.groups = map[string]*finding{}
	return true
}
