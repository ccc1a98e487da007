-- ARGV: id, remember.
local id = ARGV[1]

local function answer()
  if unqueue(id) then
    return { 'waiting' }
  end
  local index = find_holder(id)
  -- What was attached to, or released and lingers, is no longer this attempt's to give back.
  if index and holders[index].tenure == 0 and holders[index].phase ~= 'lingering' then
    remove_holder(index)
    return { 'holding' }
  end
  return { 'absent' }
end

settle()
local reply = answer()
bury(id, 'l', span_of(ARGV[2]))
return finish(reply)
