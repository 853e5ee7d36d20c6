/**
 * Two agents make 2,000 edits of 20 files, with kills, as their clients would: no file is edited while the other has it, every
 * denial names the holder, nothing is left. The same without hooks, as the control, tramples.
 */
import { expect, it } from 'vitest'
import { playTwoAgents } from './two-agents.ts'

const PLAY = { edits: 2_000, files: 20, killEvery: 50, editsPerSession: 8 }

it('2,000 edits of 20 files with hooks trample nothing', { timeout: 60 * 60_000 }, async () => {
  const outcome = await playTwoAgents({ ...PLAY, hasHooks: true })
  const { edits, kills, denials, tramplings } = outcome
  console.log(
    `with hooks: ${edits} edits, ${kills} kills, ${denials.length} denials, ${tramplings} tramplings`,
  )
  expect(outcome).toMatchObject({ tramplings: 0, lost: 0, broken: [], leases: 0, memories: 0 })
  expect(edits).toBeGreaterThanOrEqual(PLAY.edits)
  expect(denials.length).toBeGreaterThan(0)
  expect(denials.filter((reason) => !/ is held by claude:/.test(reason))).toEqual([])
})

it('the same without hooks tramples', async () => {
  const { edits, tramplings, lost } = await playTwoAgents({ ...PLAY, hasHooks: false })
  console.log(`without hooks: ${edits} edits, ${tramplings} tramplings, ${lost} edits lost`)
  expect(tramplings).toBeGreaterThan(0)
})
