-- ARGV: id, permits, capacity, ttl, max_hold, client, told, waiter_ttl, window, work, who.
local id = ARGV[1]
local claim = {
  id = id,
  permits = tonumber(ARGV[2]),
  ttl = span_of(ARGV[4]),
  max_hold = span_of(ARGV[5]),
  client = given(ARGV[6]),
  wait = span_of(ARGV[8]),
  window = span_of(ARGV[9]),
  work = given(ARGV[10]),
  who = ARGV[11],
}
local wanted = tonumber(ARGV[3])
local told = tonumber(ARGV[7])

-- The claim shows that its client lives: all its waiters keep their places for another waiter ttl.
local function hear()
  local client = claim.client
  local itself = waiter(id)
  if client and soonest then
    local before = heard(client)
    if before ~= 0 then
      set_heard(client, now)
      changed = true
    end
    if before < 0 then
      unpark(client)
    end
  end
  if itself and (itself.alone or itself.client ~= client or not client) then
    call('ZREM', LINE, member(itself))
    itself.client = client
    itself.alone = not client
    itself.start = now
    itself.lapsed = nil
    if client then
      set_heard(client, now)
    end
    put_in_line(itself, itself.place)
  end
end

local function claim_again(holder)
  if holder.phase == 'broken' or holder.phase == 'lingering' or holder.tenure > 0 then
    return { 'gone' }
  end
  if holder.phase == 'offered' and not holder.seen and told ~= holder.fence then
    holder.seen = true
    changed = true
  end
  return grant_of(holder)
end

local function attach()
  for _, holder in ipairs(holders) do
    local open = holder.phase == 'held' or holder.phase == 'offered'
    if open and holder.id ~= id and holder.work == claim.work then
      if holder.attached_by ~= id then
        local before = holder.attached_by
        holder.attached_by = id
        holder.offered_to = nil
        holder.seen = true
        holder.tenure = holder.tenure + 1
        holder.client = claim.client
        holder.who = claim.who
        changed = true
        unqueue(id)
        bury(before, 'o', remembered(holder.ttl))
      end
      return grant_of(holder)
    end
  end
end

-- How long after the holder's end a waiter looks whether it is its turn: at once if it is of the first two clients.
-- Nobody counts more than the first few in the line for it; whoever is behind those and knows of one client looks at
-- once too.
local function patience(own)
  local first
  for _, found in ipairs(call('ZRANGEBYSCORE', LINE, 0, '(' .. text(own.place), 'LIMIT', 0, CHUNK)) do
    local client = client_of(found)
    if not is_silent(found) and (not client or client ~= own.client) then
      if not first then
        first = { client = client }
      elseif not client or client ~= first.client then
        local window = waiter(string.sub(found, 1, 32)).window
        if window == NEVER then
          return 0
        end
        return window * 1000
      end
    end
  end
  return 0
end

local function place_of(own)
  local front = call('ZCOUNT', LINE, 0, '(' .. text(own.place))
  local parked = call('ZCOUNT', LINE, text(PARKED), '(' .. text(PARKED + own.place))
  local holder = soonest_free() or holders[1]
  local view = false
  local ends = NEVER
  if stranger then
    view = view_of_stranger()
    ends = stranger
  else
    view = view_of(holder)
    ends = holder_left(holder)
  end
  if ends ~= NEVER then
    ends = ends + patience(own)
  end
  return { 'queued', now, front + parked + 1, shown(ends), view }
end

local function answer()
  if tombstone(id) then
    return { 'gone' }
  end
  -- It would stand at the head for ever.
  if claim.permits > wanted then
    return { 'mismatch', wanted }
  end
  hear()
  serve(id)
  local index = find_holder(id)
  if index then
    return claim_again(holders[index])
  end
  local attached = claim.work and attach()
  if attached then
    return attached
  end
  if not holders[1] and is_queue_empty() then
    capacity = wanted
  elseif capacity ~= wanted then
    return { 'mismatch', capacity }
  end

  local own = waiter(id)
  if own then
    return place_of(own)
  end
  if not head() and fits(claim.permits) then
    return grant_of(grant(claim, true))
  end
  if not claim.wait then
    if stranger then
      return { 'held', view_of_stranger() }
    end
    return { 'held', view_of(soonest_free() or holders[1]) }
  end
  claim.place = place
  claim.since = now
  claim.start = now
  claim.alone = not claim.client
  place = place + 1
  if claim.client then
    set_heard(claim.client, now)
  end
  put_in_line(claim, claim.place)
  return place_of(claim)
end

settle()
return finish(answer())
