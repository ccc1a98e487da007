-- leasehold 1. What all scripts share: the rules of the engine (`src/engine`), by its names. Where a line looks odd,
-- the engine has the reason. What differs is how the queue is kept, so that a step costs no more than log n of it:
--
-- * KEYS[1] LOCK: the lock key, there exactly while the name is held. A value that is not ours is a stranger's.
-- * KEYS[2] RECORD: a hash with the holders, the last fence and a few numbers.
-- * KEYS[3] LINE: who waits, by place. The member is the attempt id with the client's after it; the parked are counted
--   from PARKED on.
-- * KEYS[4] WAITERS: what is known of each, by attempt id.
-- * KEYS[5] CLIENTS: when a client was last heard, negative once it fell silent. That is when all its waiters were
--   heard or parked, but for those that stand `alone`: returned from an offer, or without a client.
-- * KEYS[6] TOMBSTONES: attempt ids with a letter for their end before them, by when they are forgotten.
--
-- Times are microseconds of the server, spans are milliseconds. No number is turned into text but by `text`: Lua's own
-- way has 14 digits.
local LOCK, RECORD, LINE, WAITERS, CLIENTS, TOMBSTONES = unpack(KEYS)
local NEVER = math.huge
local PARKED = 2 ^ 52
local CHUNK = 64
-- An idle name's fence is kept so long, in case the clock steps back by hours.
local KEEP = 26 * 3600 * 1000
local BROKEN_NEVER = 30000
local LATEST = 60000
local call = redis.call
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function text(number)
  return string.format('%.0f', number)
end

-- An argument that may be absent.
local function given(argument)
  if argument == '' then
    return nil
  end
  return argument
end

-- A span that may be absent, or without end.
local function span_of(argument)
  if argument == '-1' then
    return NEVER
  end
  return tonumber(argument)
end

local function left(start, span)
  return math.max(0, span * 1000 - math.max(0, now - start))
end

local function shown(left)
  if left == NEVER then
    return -1
  end
  return left
end

local function remembered(ttl)
  if ttl == NEVER then
    return LATEST
  end
  return ttl + LATEST
end

local function value_for(holder)
  return 'leasehold:1:' .. text(holder.fence)
end

local stored = call('HMGET', RECORD, 'fence', 'capacity', 'place', 'soonest', 'longest', 'buried', 'holders')
local fence = tonumber(stored[1]) or 0
local capacity = tonumber(stored[2]) or 0
local place = tonumber(stored[3]) or 0
-- Nobody's time in the queue ends before this; none if nobody is in it.
local soonest = tonumber(stored[4])
-- The longest that anybody in the queue may be silent.
local longest = tonumber(stored[5]) or 0
-- When the last tombstone is forgotten.
local buried = tonumber(stored[6]) or 0
local holders = {}
if stored[7] and stored[7] ~= '' then
  holders = cmsgpack.unpack(stored[7])
end
local changed = false
local wakes = {}
local waiters = {}
local clients = {}
local locked = call('GET', LOCK)
-- What a stranger has left, if one holds.
local stranger

if holders[1] and locked == value_for(holders[1]) then
  for _, holder in ipairs(holders) do
    -- The clock was set back: nobody gets more than what it was granted.
    if holder.start > now then
      holder.start = now
      changed = true
    end
  end
else
  -- Somebody removed or replaced the lock key: whoever held has lost.
  for _, holder in ipairs(holders) do
    holder.span = 0
  end
  if locked then
    local at = call('PEXPIRETIME', LOCK)
    stranger = NEVER
    if at >= 0 then
      stranger = (at + 1) * 1000 - now
    end
  end
end

local function holder_left(holder)
  return left(holder.start, holder.span)
end

local function find_holder(id)
  for index, holder in ipairs(holders) do
    if holder.id == id then
      return index
    end
  end
end

-- The last takes its place.
local function remove_holder(index)
  local holder = holders[index]
  holders[index] = holders[#holders]
  holders[#holders] = nil
  changed = true
  return holder
end

local function next_fence()
  return math.max(fence + 1, now)
end

local function fits(permits)
  if stranger then
    return false
  end
  for _, holder in ipairs(holders) do
    permits = permits + holder.permits
  end
  return permits <= capacity
end

-- The letter of its end, if it is dead: l(eft), r(eleased), b(roken), o(vertaken).
local function tombstone(id)
  if buried <= now then
    return nil
  end
  local ends = { 'l', 'r', 'b', 'o' }
  local scores = call('ZMSCORE', TOMBSTONES, 'l' .. id, 'r' .. id, 'b' .. id, 'o' .. id)
  for index = 1, 4 do
    if scores[index] and tonumber(scores[index]) > now then
      return ends[index]
    end
  end
end

local function bury(id, letter, span)
  if not id or not span or tombstone(id) then
    return
  end
  local at = now + span * 1000
  buried = math.max(buried, at)
  changed = true
  call('ZREMRANGEBYSCORE', TOMBSTONES, '-inf', text(now))
  call('ZADD', TOMBSTONES, at, letter .. id)
  if buried == NEVER then
    call('PERSIST', TOMBSTONES)
  else
    call('PEXPIREAT', TOMBSTONES, math.ceil(buried / 1000))
  end
end

local function loss_of(id)
  local letter = tombstone(id)
  if letter == 'r' then
    return 'released'
  end
  if letter == 'b' then
    return 'broken'
  end
  if letter == 'o' or stranger then
    return 'overtaken'
  end
  for _, holder in ipairs(holders) do
    if holder.id ~= id and holder_left(holder) > 0 then
      return 'overtaken'
    end
  end
  return 'expired'
end

local function waiter(id)
  if soonest and not waiters[id] then
    local packed = call('HGET', WAITERS, id)
    waiters[id] = packed and cmsgpack.unpack(packed)
  end
  return waiters[id]
end

local function member(waiter)
  return waiter.id .. (waiter.client or '')
end

-- The client that a member names.
local function client_of(member)
  return given(string.sub(member, 33))
end

-- When a client was heard; negative if it fell silent since, 0 if nothing is known of it.
local function heard(client)
  if not clients[client] then
    clients[client] = tonumber(call('HGET', CLIENTS, client)) or 0
  end
  return clients[client]
end

local function set_heard(client, at)
  clients[client] = at
  call('HSET', CLIENTS, client, at)
end

local function waiter_start(waiter)
  if waiter.alone then
    return waiter.start
  end
  return math.abs(heard(waiter.client))
end

-- Whether the one at this place in the front part of the line is passed over.
local function is_silent(member)
  local client = client_of(member)
  return client and heard(client) < 0
end

local function put_in_line(waiter, score)
  waiters[waiter.id] = waiter
  call('ZADD', LINE, score, member(waiter))
  call('HSET', WAITERS, waiter.id, cmsgpack.pack(waiter))
  soonest = math.min(soonest or NEVER, waiter_start(waiter) + waiter.wait * 1000)
  longest = math.max(longest, waiter.wait)
  changed = true
end

local function unqueue(id)
  local found = waiter(id)
  if not found then
    return false
  end
  call('ZREM', LINE, member(found))
  call('HDEL', WAITERS, id)
  waiters[id] = nil
  changed = true
  return true
end

local function is_queue_empty()
  return not soonest or call('ZCARD', LINE) == 0
end

local function park(client)
  if soonest and heard(client) >= 0 then
    set_heard(client, -math.max(1, heard(client)))
    changed = true
  end
end

-- A client is heard again: its waiters stand where they stood, but for those that did not answer themselves.
local function unpark(client)
  for _, found in ipairs(call('ZRANGEBYSCORE', LINE, text(PARKED), '+inf')) do
    if client_of(found) == client then
      local parked = waiter(string.sub(found, 1, 32))
      if not parked.lapsed then
        parked.alone = nil
        parked.lapsed = nil
        put_in_line(parked, parked.place)
      end
    end
  end
end

local function take_back(holder, lapsed)
  local waiter = holder.offered_to
  if holder.phase ~= 'offered' or not waiter then
    return
  end
  if left(waiter.start, waiter.wait) > 0 then
    waiter.alone = true
    waiter.lapsed = lapsed
    put_in_line(waiter, PARKED + waiter.place)
  end
  if waiter.client then
    park(waiter.client)
  end
end

-- Removes the waiters whose time is over, and forgets the clients that nobody waits for.
local function sweep()
  local all = call('HGETALL', WAITERS)
  local known = {}
  soonest = NEVER
  for index = 1, #all, 2 do
    local one = cmsgpack.unpack(all[index + 1])
    waiters[one.id] = one
    if left(waiter_start(one), one.wait) == 0 then
      unqueue(one.id)
    else
      soonest = math.min(soonest, waiter_start(one) + one.wait * 1000)
      known[one.client or ''] = true
    end
  end
  for _, client in ipairs(call('HKEYS', CLIENTS)) do
    if not known[client] then
      call('HDEL', CLIENTS, client)
      clients[client] = nil
    end
  end
  changed = true
end

local function settle()
  local index = 1
  while holders[index] do
    if holder_left(holders[index]) == 0 then
      take_back(remove_holder(index), true)
    else
      index = index + 1
    end
  end
  if soonest and soonest <= now then
    sweep()
  end
end

-- Of those whose time ends, the one whose time ends first.
local function soonest_free()
  local found
  for _, holder in ipairs(holders) do
    if holder.span ~= NEVER and (not found or holder_left(holder) < holder_left(found)) then
      found = holder
    end
  end
  return found
end

local function tell(client, id, kind, number, rest)
  wakes[#wakes + 1] = { client = client, id = id, kind = kind, number = number, rest = rest or '' }
end

local function tell_next()
  local holder = soonest_free()
  if not holder or not soonest then
    return
  end
  local offered = holder.phase == 'offered' and holder.client
  local in_ms = math.ceil(holder_left(holder) / 1000)
  local from = 0
  local chunk
  repeat
    chunk = call('ZRANGEBYSCORE', LINE, 0, '(' .. text(PARKED), 'LIMIT', from, CHUNK)
    for _, found in ipairs(chunk) do
      if not is_silent(found) then
        local client = client_of(found)
        if client then
          tell(client, string.sub(found, 1, 32), 'next', in_ms)
        end
        if not offered or client ~= offered then
          return
        end
      end
    end
    from = from + CHUNK
  until #chunk < CHUNK
end

-- The first in the line that is not passed over.
local function head()
  while soonest do
    local first = call('ZRANGE', LINE, 0, 0, 'WITHSCORES')
    if not first[1] or tonumber(first[2]) >= PARKED then
      return nil
    end
    if not is_silent(first[1]) then
      return waiter(string.sub(first[1], 1, 32))
    end
    -- So that nobody has to pass over it again.
    call('ZADD', LINE, PARKED + tonumber(first[2]), first[1])
  end
end

local function grant(waiter, here)
  local longest_hold = math.min(waiter.ttl, waiter.max_hold or NEVER)
  fence = next_fence()
  local holder = {
    id = waiter.id,
    fence = fence,
    permits = waiter.permits,
    tenure = 0,
    phase = 'held',
    ttl = waiter.ttl,
    start = now,
    span = longest_hold,
    client = waiter.client,
    at = math.floor(now / 1000),
    who = waiter.who,
    work = waiter.work,
    max_hold = waiter.max_hold,
    max_start = now,
  }
  if not here then
    holder.phase = 'offered'
    holder.span = math.min(waiter.window, longest_hold)
    holder.offered_to = waiter
    if waiter.client then
      tell(waiter.client, waiter.id, 'offer', fence, text(now) .. ' ' .. text(shown(holder_left(holder))) .. ' ')
    end
  end
  holders[#holders + 1] = holder
  changed = true
  return holder
end

local function serve(caller)
  local served = false
  local first = head()
  while first and fits(first.permits) do
    -- While it is offered the name, nobody who speaks for its client speaks for it.
    first.start = waiter_start(first)
    unqueue(first.id)
    grant(first, first.id == caller)
    served = true
    first = head()
  end
  if served then
    tell_next()
  end
end

local function silence(client, offer)
  local index = 1
  while holders[index] do
    local holder = holders[index]
    if holder.phase == 'offered' and holder.client == client and holder.fence == offer and not holder.seen then
      take_back(remove_holder(index), false)
    else
      index = index + 1
    end
  end
  park(client)
end

-- Sends the hints. A client that nobody receives for is silenced at once, which may wake others.
local function deliver()
  local silenced = {}
  local index = 1
  while wakes[index] do
    local wake = wakes[index]
    local offer = wake.kind == 'offer' and wake.number
    local received = 0
    if silenced[wake.client] then
      if not offer then
        received = 1
      end
    else
      local payload = wake.kind .. ' ' .. wake.id .. ' ' .. text(wake.number) .. ' ' .. wake.rest .. LOCK
      received = call('PUBLISH', 'leasehold:' .. wake.client, payload)
    end
    if received == 0 then
      silenced[wake.client] = true
      settle()
      silence(wake.client, offer)
      serve()
    end
    index = index + 1
  end
end

local function save()
  if is_queue_empty() then
    soonest = nil
    longest = 0
    call('DEL', CLIENTS)
  else
    for index = 3, 5 do
      if longest == NEVER then
        call('PERSIST', KEYS[index])
      else
        call('PEXPIREAT', KEYS[index], math.ceil(now / 1000) + longest + 1000)
      end
    end
  end
  local ends = 0
  for _, holder in ipairs(holders) do
    ends = math.max(ends, holder.start + holder.span * 1000)
  end
  local packed = ''
  if holders[1] then
    packed = cmsgpack.pack(holders)
    if ends == NEVER then
      call('SET', LOCK, value_for(holders[1]))
    else
      -- The server keeps a key until the millisecond is over.
      call('SET', LOCK, value_for(holders[1]), 'PXAT', math.ceil(ends / 1000) - 1)
    end
  elseif locked and not stranger then
    call('DEL', LOCK)
  end
  call('HSET', RECORD, 'fence', fence, 'capacity', capacity, 'place', place, 'soonest', soonest or '', 'longest', longest,
    'buried', buried, 'holders', packed)
  local last = math.max(now, ends, buried, now + longest * 1000)
  if last == NEVER then
    call('PERSIST', RECORD)
  else
    call('PEXPIREAT', RECORD, math.ceil(last / 1000) + KEEP)
  end
end

-- What every step but a question ends with.
local function finish(reply)
  -- Changed or not: a stranger may have gone since, and that tells nobody.
  serve()
  if changed then
    deliver()
    save()
  end
  return reply
end

local function grant_of(holder)
  local offered = 0
  if holder.phase == 'offered' then
    offered = 1
  end
  local ttl, ends = holder.ttl * 1000, holder_left(holder)
  return { 'granted', now, holder.id, holder.fence, holder.tenure, shown(ttl), shown(ends), offered }
end

local function view_of(holder)
  return { holder.fence, holder.who, holder.at, shown(holder_left(holder)), holder.phase }
end

-- A stranger is known by its value alone.
local function view_of_stranger()
  return { -1, locked, 0, shown(stranger), 'held' }
end
