import { expect, it } from 'vitest'
import { measureEmissions } from './emission-speed.ts'

it('an orchestrator sends 20,000 actions a second by the clock, 100 in flight, on a quiet machine', async () => {
  await measureEmissions(5_000, 100)
  const rounds: number[] = []
  for (let round = 0; round < 5; round += 1) {
    rounds.push((await measureEmissions(50_000, 100)).perSecond)
  }
  process.stdout.write(`emissions a second: ${rounds.map(Math.round).join(', ')}\n`)
  expect(Math.max(...rounds)).toBeGreaterThan(20_000)
})
