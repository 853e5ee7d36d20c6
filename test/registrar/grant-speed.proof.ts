import { expect, it } from 'vitest'
import { signGrant, verifyGrant } from '../../src/registrar/grant.ts'
import { grant, KEY, NOW, verifier } from './grants.ts'

it('signs and verifies a number of grants that is reported', () => {
  const rounds = 2_000
  const begin = process.cpuUsage()
  const tokens = Array.from({ length: rounds }, (_, fence) => signGrant(grant({ fence }), KEY))
  const signing = process.cpuUsage(begin)
  for (const token of tokens) verifyGrant(token, [verifier()], { now: NOW })
  const both = process.cpuUsage(begin)
  const signUs = (signing.user + signing.system) / rounds
  const verifyUs = (both.user + both.system) / rounds - signUs
  const [signed, verified] = [signUs, verifyUs].map((us) => Math.round(1e6 / Math.max(us, 0.01)))
  process.stdout.write(`grants: ${signed} signed/s, ${verified} verified/s\n`)
  expect(new Set(tokens).size).toBe(rounds)
})
