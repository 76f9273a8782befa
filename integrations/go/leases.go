package developeroverview

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Leases: with a lease, a process decides about the requests of a key by itself. The rules of a holder are those of src/guard/held-lease.ts, and what
// follows them is that of integrations/node/leases.js. integrations/schedules.txt holds both to the same decisions.

const (
	leaseMs        = 2000
	marginMs       = 250
	maxUnits       = 64
	maxKeys        = 10000
	maxBack        = 16
	maxItems       = 200
	askingMs       = 2000 // A call for the next lease lapses after this time.
	silenceMs      = 3500 // What is left of a lease rides on the next call for its key. After this time without one, it has a call of its own.
	renewAfter     = 10 * time.Millisecond
	watchEvery     = 250 * time.Millisecond
	maxLastCalls   = 50
	ofLeaseReceipt = "lease."
)

// moment is the time by both clocks, in milliseconds. The wall clock goes on while a machine sleeps, and the other one never steps.
type moment struct{ mono, wall int64 }

var processStart = time.Now()

func thisMoment() moment {
	now := time.Now()
	return moment{now.Sub(processStart).Milliseconds(), now.UnixMilli()}
}

// held is a lease in the hands of this process. shift: how many units the Worker had not counted when it answered, less those that it counted later.
type held struct {
	lease          string
	units, unused  int
	askedAt, until moment
	order          int64
	answer         *Answer
	shift          int
}

func (own *held) isUsable(cost int, now moment) bool {
	return own.unused >= cost && now.mono >= own.askedAt.mono && now.mono < own.until.mono && now.wall >= own.askedAt.wall && now.wall < own.until.wall
}

func (own *held) isOver(now moment) bool {
	return own.unused < 1 || now.mono < own.askedAt.mono || now.mono >= own.until.mono || now.wall >= own.until.wall
}

func (own *held) isRunningOut(now moment) bool {
	return 2*own.unused < own.units || 2*(own.until.mono-now.mono) < own.until.mono-own.askedAt.mono
}

// seenAt returns the times of the latest requests of a key, with that of one more.
func seenAt(times []int64, now int64) []int64 {
	recent := times[:0]
	for _, each := range times {
		if each <= now && now-each < leaseMs {
			recent = append(recent, each)
		}
	}
	if recent = append(recent, now); len(recent) > maxUnits {
		recent = recent[len(recent)-maxUnits:]
	}
	return recent
}

type unused struct {
	Lease  string `json:"lease"`
	Unused int    `json:"unused"`
}

// question is what a call for a key asks: how many units it wants, and what is left of earlier leases.
type question struct {
	at moment
	// isForAll: it should bring a lease, so other requests wait for it, with own.
	isForAll bool
	own      *leaseWait
	Want     int      `json:"want"`
	Back     []unused `json:"back"`
}

// leaseItem is a key of a call for leases: with a request that waits, or with the lease to renew.
type leaseItem struct {
	Key     *string    `json:"key,omitempty"`
	Lease   *string    `json:"lease,omitempty"`
	Request *described `json:"request,omitempty"`
	question
	id string
}

// described is a request without its key.
type described struct {
	Request
	Key *string `json:"key,omitempty"`
}

// leased is what a process knows of a key.
type leased struct {
	times                  []int64
	held                   []*held
	back                   []unused
	lease                  string
	isUrgent, hasAddresses bool
	// Whether the last call that asked for a lease has brought one.
	isGiven bool
	// Whether denials count in shadow mode, and for which accounts the request said so.
	isEnforced        bool
	enforcedFor       string
	askedAt, calledAt int64
}

const never = int64(-1) << 60

// leases are the leases of a process, by the ids of credentials.
type leases struct {
	mutex      sync.Mutex
	keys       map[string]*leased
	latest     int64
	sum, spare int
	soon       chan struct{}
	holder     string
}

func newLeases(holder string) *leases {
	return &leases{holder: holder, keys: map[string]*leased{}, soon: make(chan struct{}, 1)}
}

func (l *leases) stats() (units, unused int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.sum, l.spare
}

// admit decides about a request by a lease. It returns nil if the Worker has to decide, which includes every denial. isAgain: it was tried before.
func (l *leases) admit(id string, request Request, now moment, isAgain bool) *Answer {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	key := l.keys[id]
	if key == nil {
		return nil
	}
	if now.wall < l.latest-marginMs {
		for _, each := range l.keys {
			l.end(each, func(*held) bool { return true })
		}
	}
	l.latest = now.wall
	if !isAgain {
		key.times = seenAt(key.times, now.mono)
	}
	cost := request.units()
	var own *held
	for _, each := range key.held {
		if own == nil && each.isUsable(cost, now) {
			own = each
		}
	}
	// Shadow mode enforces for the accounts that each place names.
	if request.Shadow != nil && key.enforcedFor != textOf(request.Shadow) {
		return nil
	}
	if own == nil || cost < 1 || request.RequestID != "" || key.hasAddresses || !request.hasScopes(own.answer.Key.Scopes) {
		return nil
	}
	if end := own.answer.Key.ExpiresAt; end != nil && now.wall >= wallOf(*end) {
		return nil
	}
	own.unused -= cost
	if !own.isRunningOut(now) || len(key.held) > 1 || now.mono < key.askedAt+askingMs {
		return own.answerTo(request, cost, now, l.holder)
	}
	select {
	case l.soon <- struct{}{}:
	default:
	}
	return own.answerTo(request, cost, now, l.holder)
}

// units returns the units that a request uses. It is 0 for a cost that the Worker would not accept.
func (request Request) units() int {
	switch {
	case request.Cost == 0:
		return 1
	case request.Cost < 0:
		return 0
	}
	return request.Cost
}

func wallOf(text string) int64 {
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0
	}
	return parsed.UnixMilli()
}

// question returns what a call for a key asks. waiting: the number of requests that wait for a decision about the key.
func (l *leases) question(id string, now moment, cost, waiting int) question {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	key := l.keys[id]
	if key != nil {
		return l.questionOf(key, now, cost, waiting)
	}
	if cost > 1 || waiting < 2 {
		waiting = 0
	}
	return question{at: now, Want: least(waiting, maxUnits), Back: []unused{}, isForAll: true}
}

func (l *leases) questionOf(key *leased, now moment, cost, waiting int) question {
	l.end(key, func(own *held) bool { return own.isOver(now) })
	asked := question{at: now, Want: least(most(len(key.times), waiting), maxUnits)}
	if now.mono < key.askedAt+askingMs || key.hasAddresses || len(key.held) > 1 || cost > 1 || asked.Want < 2 {
		asked.Want = 0
	}
	if asked.Want > 0 {
		key.askedAt, asked.isForAll = now.mono, key.isGiven
	}
	key.calledAt = now.mono
	asked.Back = key.takeBack()
	return asked
}

func (key *leased) takeBack() []unused {
	count := len(key.back)
	if count > maxBack {
		count = maxBack
	}
	taken := append([]unused{}, key.back[:count]...)
	key.back = key.back[count:]
	return taken
}

func (key *leased) returning() int {
	sum := 0
	for _, each := range key.back {
		sum += each.Unused
	}
	return sum
}

// take takes note of an answer. asked: what its call asked. cost: the units of its request. Returns the answer as the client of the team sees it: the
// Worker counts units as used that this process holds.
func (l *leases) take(id string, asked question, cost int, shadow *Enforcement, found *item, now moment) *Answer {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	decision := &found.Answer
	key := l.keys[id]
	if !decision.Allowed {
		if key != nil && asked.Want > 0 {
			key.askedAt, key.isGiven = never, false
		}
		if key != nil && (decision.Status == http.StatusUnauthorized || decision.Status == http.StatusForbidden) && decision.Code != "insufficient_scope" {
			l.end(key, func(*held) bool { return true })
		}
		return decision
	}
	if key == nil {
		key = l.added(id, now)
	}
	if asked.Want > 0 {
		key.askedAt, key.isGiven = never, found.Lease != ""
	}
	// A renewal has no request, so its answer does not know for which accounts shadow mode enforces.
	if cost > 0 {
		key.isEnforced, key.enforcedFor = decision.Enforced, textOf(shadow)
	}
	var earlier []*held
	spare := 0
	for _, own := range key.held {
		if own.order < found.Order {
			earlier = append(earlier, own)
			spare += own.unused
		}
	}
	if len(earlier) > 0 {
		spare += key.returning()
	}
	if found.Lease != "" && decision.Key != nil && decision.Account != nil {
		l.hold(key, asked.at, found)
	}
	for _, own := range earlier {
		own.shift += cost
	}
	if spare == 0 {
		return decision
	}
	shown := *decision
	shown.RateLimits, shown.Headers = figuresOf(decision, -spare, now.wall)
	return &shown
}

func textOf(shadow *Enforcement) string {
	if shadow == nil {
		return ""
	}
	text, _ := json.Marshal(shadow)
	return string(text)
}

func (l *leases) hold(key *leased, at moment, found *item) {
	key.lease, key.isUrgent = found.Lease, found.IsUrgent
	l.sum += found.Units
	// A process does not check addresses, so the Worker decides about a key with addresses.
	if key.hasAddresses = len(found.AllowedIPs) > 0; key.hasAddresses {
		key.back = append(key.back, unused{found.Lease, found.Units})
		return
	}
	answer := found.Answer
	answer.Enforced = key.isEnforced
	key.held = append(key.held, &held{
		lease: found.Lease, units: found.Units, unused: found.Units, order: found.Order, shift: -key.returning(),
		askedAt: at, until: moment{at.mono + found.ForMs, at.wall + found.ForMs}, answer: answer.clone(),
	})
}

// keepBack gives what a call took along back, because the call was lost. The Worker takes each only once.
func (l *leases) keepBack(id string, asked question) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if key := l.keys[id]; key != nil {
		key.back = append(key.back, asked.Back...)
		if asked.Want > 0 {
			key.askedAt = never
		}
	}
}

// due returns the keys whose leases run out, or whose units have waited too long, at most 200. all: gives everything back.
func (l *leases) due(now moment, all bool) []leaseItem {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	items := []leaseItem{}
	for id, key := range l.keys {
		if len(items) == maxItems {
			break
		}
		l.end(key, func(own *held) bool { return all || own.isOver(now) })
		isBusy, isWanted := false, false
		for _, each := range key.times {
			isBusy = isBusy || now.mono-each < leaseMs
		}
		if len(key.held) > 0 {
			isWanted = isBusy && key.held[len(key.held)-1].isRunningOut(now)
		}
		isSilent := len(key.back) > 0 && (all || key.isUrgent || now.mono > key.calledAt+silenceMs)
		if key.lease == "" || !(isWanted || isSilent) {
			if (all || !isBusy) && len(key.held) == 0 && len(key.back) == 0 {
				delete(l.keys, id)
			}
			continue
		}
		lease := key.lease
		made := leaseItem{id: id, Lease: &lease}
		if isWanted {
			made.question = l.questionOf(key, now, 0, 0)
		} else {
			made.question = question{at: now, Back: key.takeBack()}
		}
		key.calledAt = now.mono
		if made.Want > 0 || len(made.Back) > 0 {
			items = append(items, made)
		}
	}
	return items
}

func (l *leases) added(id string, now moment) *leased {
	if len(l.keys) >= maxKeys {
		// Keys without units go first.
		chosen := ""
		for each, key := range l.keys {
			if chosen = each; len(key.held) == 0 && len(key.back) == 0 {
				break
			}
		}
		delete(l.keys, chosen)
	}
	key := &leased{isEnforced: true, isGiven: true, times: []int64{now.mono}, askedAt: never, calledAt: now.mono}
	l.keys[id] = key
	return key
}

// end ends leases of a key. What is left of them goes back.
func (l *leases) end(key *leased, isEnded func(*held) bool) {
	var kept, ended []*held
	for _, own := range key.held {
		if isEnded(own) {
			ended = append(ended, own)
		} else {
			kept = append(kept, own)
		}
	}
	key.held = kept
	for _, own := range ended {
		l.spare += own.unused
		if own.unused > 0 {
			key.back = append(key.back, unused{own.lease, own.unused})
		}
		for _, later := range kept {
			later.shift -= own.unused
		}
	}
}

// figuresOf returns the limits and the headers of an answer after further units.
func figuresOf(answer *Answer, units int, wall int64) ([]RateLimit, map[string]string) {
	headers := map[string]string{}
	for name, value := range answer.Headers {
		headers[name] = value
	}
	limits := append([]RateLimit{}, answer.RateLimits...)
	parts := []string{}
	var hour *RateLimit
	for index := range limits {
		each := &limits[index]
		each.Used = most(0, each.Used+units)
		each.Remaining = most(0, each.Limit-each.Used)
		left := (wallOf(each.ResetsAt) - wall + 999) / 1000
		parts = append(parts, fmt.Sprintf(`"%s";r=%d;t=%d`, each.Name, each.Remaining, most(1, int(left))))
		if hour == nil || (each.Name == "hour" && hour.Name != "hour") {
			hour = each
		}
	}
	if hour != nil {
		headers["RateLimit"] = strings.Join(parts, ", ")
		headers["X-RateLimit-Remaining"] = strconv.Itoa(hour.Remaining)
		headers["X-RateLimit-Used"] = strconv.Itoa(hour.Used)
	}
	return limits, headers
}

func least(left, right int) int {
	return -most(-left, -right)
}

func most(left, right int) int {
	if left > right {
		return left
	}
	return right
}

// entry is a request that a lease decided, as POST /team/v1/entries takes it.
type entry struct {
	ID         string   `json:"id"`
	Lease      string   `json:"lease"`
	At         string   `json:"at"`
	Method     string   `json:"method,omitempty"`
	Path       string   `json:"path,omitempty"`
	Route      string   `json:"route,omitempty"`
	IP         string   `json:"ip,omitempty"`
	UserAgent  string   `json:"user_agent,omitempty"`
	Cost       int      `json:"cost"`
	Status     int      `json:"status,omitempty"`
	DurationMs *float64 `json:"duration_ms,omitempty"`
	Streaming  bool     `json:"streaming,omitempty"`
	// By is the holder whose lease has decided. It stays in this process.
	By string `json:"by,omitempty"`
}

// answerTo returns the answer to a request that this lease has admitted. Its receipt is the entry of the log.
func (own *held) answerTo(request Request, cost int, now moment, by string) *Answer {
	random, _ := hex.DecodeString(newID())
	random[6], random[8] = random[6]&0x0f|0x70, random[8]&0x3f|0x80
	made := own.answer.clone()
	made.RateLimits, made.Headers = figuresOf(own.answer, own.units-own.unused+own.shift, now.wall)
	made.RequestID = fmt.Sprintf("req_%012x%s", now.wall, hex.EncodeToString(random[6:]))
	receipt, _ := json.Marshal(entry{
		ID: made.RequestID, Lease: own.lease, At: time.UnixMilli(now.wall).UTC().Format("2006-01-02T15:04:05.000Z"), Cost: cost,
		Method: request.Method, Path: request.Path, Route: request.Route, IP: request.IP, UserAgent: request.UserAgent, By: by,
	})
	made.Receipt = ofLeaseReceipt + base64.RawURLEncoding.EncodeToString(receipt)
	return made
}

// clone returns a copy that shares nothing with the answer, because a handler may change its own.
func (answer *Answer) clone() *Answer {
	made := *answer
	account, key := *answer.Account, *answer.Key
	account.Metadata, key.Metadata = copyOf(account.Metadata), copyOf(key.Metadata)
	key.Scopes = append([]string{}, key.Scopes...)
	made.Account, made.Key = &account, &key
	return &made
}

func copyOf(values map[string]interface{}) map[string]interface{} {
	made := make(map[string]interface{}, len(values))
	for name, value := range values {
		if inner, isMap := value.(map[string]interface{}); isMap {
			value = copyOf(inner)
		}
		made[name] = value
	}
	return made
}

// byLease decides about a request by a lease, or returns nil.
func (v *Verifier) byLease(id string, request Request, isAgain bool) *Answer {
	if v.leases == nil {
		return nil
	}
	decision := v.leases.admit(id, request, thisMoment(), isAgain)
	if decision == nil {
		return nil
	}
	v.counts.byLease.Add(1)
	if v.known != nil {
		v.known.touch(id, request.IP)
	}
	if request.Report != nil && !*request.Report {
		v.reportEntry(decision.Receipt, nil)
		decision.Receipt = ""
	}
	return decision
}

// question returns what a call asks. Of the calls for a key that this process does not know yet, one asks for a lease.
func (v *Verifier) question(id string, key *share, cost int) question {
	if v.leases == nil {
		return question{}
	}
	v.shares.mutex.Lock()
	defer v.shares.mutex.Unlock()
	waiting := key.users
	if key.asking != nil {
		waiting = 0
	}
	asked := v.leases.question(id, thisMoment(), cost, waiting)
	if asked.Want > 0 && asked.isForAll && key.asking == nil {
		key.asking = &leaseWait{ended: make(chan struct{})}
		asked.own = key.asking
	}
	return asked
}

// leaseWait is a call that asks for a lease. ended is closed when it is answered, or when its request can no longer wait.
type leaseWait struct {
	ended      chan struct{}
	isAnswered bool
}

// asked notes that a request waits no longer for the call that asks for a lease.
func (v *Verifier) asked(key *share, own *leaseWait, isAnswered bool) {
	if own == nil {
		return
	}
	v.shares.mutex.Lock()
	key.asking, own.isAnswered = nil, isAnswered
	v.shares.mutex.Unlock()
	close(own.ended)
}

// awaitLease waits for the call that asks for a lease of a credential, and returns the decision by its lease, or nil. This call asks for all that wait. If
// each of them made a call, too, a slow Worker would never get to it.
func (v *Verifier) awaitLease(ctx context.Context, id string, key *share, request Request) *Answer {
	for isAnswered := false; ; {
		if decision := v.byLease(id, request, true); decision != nil {
			return decision
		}
		v.shares.mutex.Lock()
		waits := key.asking
		v.shares.mutex.Unlock()
		if waits == nil || isAnswered {
			return nil
		}
		select {
		case <-waits.ended:
			isAnswered = waits.isAnswered
		case <-ctx.Done():
			return nil
		}
	}
}

func (v *Verifier) take(id string, asked question, request Request, found *item) *Answer {
	if v.leases == nil {
		return &found.Answer
	}
	return v.leases.take(id, asked, most(1, request.Cost), request.Shadow, found, thisMoment())
}

func (v *Verifier) keepBack(id string, asked question) {
	if v.leases != nil {
		v.leases.keepBack(id, asked)
	}
}

func (c *core) leaseCall(keys interface{}) interface{} {
	return map[string]interface{}{"holder": c.holder, "protocol": protocol, "keys": keys}
}

// renewals renews the leases that run out, and gives back what is left of those that are over.
func (c *core) renewals() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.leases.soon:
			time.Sleep(renewAfter)
		case <-ticker.C:
		case <-c.stop:
			return
		}
		if items := c.leases.due(thisMoment(), false); len(items) > 0 {
			go c.renew(items)
		}
	}
}

func (c *core) giveAllBack() {
	for calls := 0; c.leases != nil && calls < maxLastCalls; calls++ {
		items := c.leases.due(thisMoment(), true)
		if len(items) == 0 || !c.renew(items) {
			return
		}
	}
}

// renew sends a call for leases, and returns whether it was answered.
func (c *core) renew(items []leaseItem) bool {
	ctx, cancel := context.WithTimeout(context.Background(), c.options.Timeout)
	defer cancel()
	body, _ := json.Marshal(c.leaseCall(items))
	status, text, err := c.post(ctx, "/leases", body)
	if err != nil {
		c.say(err)
	}
	answers := []json.RawMessage{}
	if status == http.StatusOK && err == nil {
		answers = itemsIn(text)
	}
	for index, each := range items {
		found := &item{}
		if index >= len(answers) || json.Unmarshal(answers[index], found) != nil || found.Allowed == nil || found.Retry {
			c.leases.keepBack(each.id, each.question)
			continue
		}
		found.Answer.Allowed = *found.Allowed
		decision := c.leases.take(each.id, each.question, 0, nil, found, thisMoment())
		c.ends.note(each.id, decision)
		if c.known != nil && !decision.Allowed {
			c.known.note(each.id, "", decision, nil)
		}
	}
	return len(answers) > 0
}
