-- ARGV: id, tenure, linger, remember.
local id = ARGV[1]
local tenure = tonumber(ARGV[2])
local linger = span_of(ARGV[3])
local remember = span_of(ARGV[4])

local function answer()
  local index = find_holder(id)
  if not index then
    if tombstone(id) == 'r' then
      return { 'already' }
    end
    local loss = loss_of(id)
    -- An offer that lapsed went back to the queue; and the claim itself may still be under way.
    unqueue(id)
    bury(id, 'l', remember)
    return { 'lost', loss }
  end
  local holder = holders[index]
  if tenure and tenure ~= holder.tenure then
    return { 'lost', 'overtaken' }
  end
  -- Who attached cannot know whether requests of the first orchestrator are still under way.
  if not remember and holder.attached_by then
    remember = remembered(holder.ttl)
  end
  local reply = { 'released' }
  if holder.phase == 'lingering' then
    reply = { 'already' }
  elseif linger and holder.phase ~= 'broken' then
    holder.phase = 'lingering'
    holder.start = now
    holder.span = linger
    changed = true
    tell_next()
  else
    remove_holder(index)
  end
  bury(id, 'r', remember)
  bury(holder.attached_by, 'r', remember)
  return reply
end

settle()
return finish(answer())
