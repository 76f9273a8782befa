package developeroverview

import (
	"container/list"
	"context"
	"net/http"
	"sync"
	"time"
)

// bound says how many calls may run at the same time, and how many requests may wait for one of them.
type bound struct{ calls, waiting int }

var (
	ofAll        = bound{256, 4096}
	ofUnknown    = bound{128, 2048}
	ofAccount    = bound{16, 496}
	ofCredential = bound{16, 112}
)

const maxAccounts = 10000

// shares shares the slots between customers. The calls of an account have one bound for all its keys. The credentials whose account is not known yet
// share half of all slots, so made-up credentials leave the other half free.
type shares struct {
	mutex sync.Mutex
	// accounts has the accounts of credentials, and order has them in the order of use.
	accounts map[string]*list.Element
	order    list.List
	// used has the bounds that requests use now.
	used map[string]*share
}

type accountOf struct{ credential, account string }

type share struct {
	slots chan struct{}
	users int
	// asking is the call that asks for a lease. It is nil if there is none.
	asking   *leaseWait
	deniedAt time.Time
}

// run runs work with the record of the credential, and returns its result. It returns nil if there is no slot before turn ends.
func (s *shares) run(turn context.Context, id string, work func(*share) *Answer) *Answer {
	return s.within(turn, id, ofCredential, func(credential *share) *Answer {
		name, bound := "unknown", ofUnknown
		s.mutex.Lock()
		if known := s.accounts[id]; known != nil {
			name, bound = known.Value.(accountOf).account, ofAccount
		}
		s.mutex.Unlock()
		return s.within(turn, name, bound, func(*share) *Answer {
			return s.within(turn, "all", ofAll, func(*share) *Answer { return work(credential) })
		})
	})
}

// note notes the account that an answer names. A 401 removes it, so a revoked key cannot take the slots of its account.
func (s *shares) note(id string, decision *Answer) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	account := ""
	if known := s.accounts[id]; known != nil {
		account = s.order.Remove(known).(accountOf).account
		delete(s.accounts, id)
	}
	if decision.Account != nil {
		account = decision.Account.ID
	}
	if decision.Status == http.StatusUnauthorized || account == "" {
		return
	}
	s.accounts[id] = s.order.PushBack(accountOf{id, account})
	if s.order.Len() > maxAccounts {
		delete(s.accounts, s.order.Remove(s.order.Front()).(accountOf).credential)
	}
}

func (s *shares) within(turn context.Context, name string, bound bound, work func(*share) *Answer) *Answer {
	s.mutex.Lock()
	used := s.used[name]
	if used == nil {
		used = &share{slots: make(chan struct{}, bound.calls)}
	}
	if used.users >= bound.calls+bound.waiting {
		s.mutex.Unlock()
		return nil
	}
	s.used[name] = used
	used.users++
	s.mutex.Unlock()
	defer s.leave(name, used)
	select {
	case used.slots <- struct{}{}:
		defer func() { <-used.slots }()
		return work(used)
	case <-turn.Done():
		return nil
	}
}

func (s *shares) leave(name string, used *share) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if used.users--; used.users == 0 {
		delete(s.used, name)
	}
}
