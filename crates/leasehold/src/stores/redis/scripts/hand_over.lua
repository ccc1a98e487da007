-- ARGV: id, fence, tenure, to.
local id = ARGV[1]
local tenure = tonumber(ARGV[3])
local to = ARGV[4]

local function answer()
  local receiver = find_holder(to)
  if receiver and holders[receiver].from == id then
    return { 'done', holders[receiver].fence, shown(holder_left(holders[receiver])) }
  end
  local index = find_holder(id)
  if not index or holders[index].fence ~= tonumber(ARGV[2]) then
    return { 'lost', loss_of(id) }
  end
  -- The receiver gave up before this came, or its id is not a new one.
  if receiver or tombstone(to) then
    return { 'lost', loss_of(to) }
  end
  local holder = holders[index]
  if holder.phase == 'broken' then
    return { 'lost', 'broken' }
  end
  if holder.phase == 'lingering' then
    return { 'lost', 'released' }
  end
  if tenure and tenure ~= holder.tenure then
    return { 'lost', 'overtaken' }
  end
  unqueue(to)
  fence = next_fence()
  local span = holder.ttl
  if holder.max_hold then
    span = math.min(span, math.floor(left(holder.max_start, holder.max_hold) / 1000))
  end
  local attached_by = holder.attached_by
  holder.from = id
  holder.offered_to = nil
  holder.seen = nil
  holder.attached_by = nil
  holder.id = to
  holder.fence = fence
  holder.tenure = 0
  holder.phase = 'held'
  holder.client = nil
  holder.start = now
  holder.span = span
  changed = true
  -- A late claim of the giver's must neither queue nor attach to what it gave away.
  bury(id, 'o', remembered(holder.ttl))
  bury(attached_by, 'o', remembered(holder.ttl))
  return { 'done', fence, shown(span * 1000) }
end

settle()
return finish(answer())
