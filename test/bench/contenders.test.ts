/** Several processes stand for one system at a time; what one of them does too late must not be put down to the next. */
import path from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { SystemUnderTest } from '../../bench/system.ts'
import { Contenders } from '../../bench/works/contenders.ts'
import { lineSystem } from './broken-systems.ts'

const PROGRAM = path.resolve(import.meta.dirname, '../../dist-dev/test/bench/late-contender.js')
const PLACE = { at: '' }
const OPTIONS = { resource: 'wanted', workers: 1, prefix: 'w', holdMs: 0, untilUs: 0 }
const late: SystemUnderTest = { ...lineSystem, name: 'late' }
const prompt: SystemUnderTest = { ...lineSystem, name: 'prompt' }
let contenders: Contenders

afterEach(() => contenders.end())

it('a system that answers too late is not scored, and the next has its own turns', async () => {
  contenders = Contenders.start({ processes: 2, program: PROGRAM, patienceMs: 3_000 })
  for (const system of [late, prompt]) await contenders.open(system, PLACE, 1)
  await expect(contenders.contend(late, OPTIONS)).rejects.toThrow('no answer within 3 s')
  const { turns } = await contenders.contend(prompt, OPTIONS)
  expect(turns.map(({ worker }) => worker)).toEqual(['prompt', 'prompt'])
  await expect(contenders.contend(late, OPTIONS)).rejects.toThrow('is not open')
})

it('a process that dies fails its system, and nobody after it', async () => {
  const dying: SystemUnderTest = { ...lineSystem, name: 'dying' }
  contenders = Contenders.start({ processes: 2, program: PROGRAM })
  for (const system of [dying, prompt]) await contenders.open(system, PLACE, 1)
  await expect(contenders.contend(dying, OPTIONS)).rejects.toThrow('it is gone')
  expect((await contenders.contend(prompt, OPTIONS)).turns).toHaveLength(2)
})
