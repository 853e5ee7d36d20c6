/** Chains of grants for tests. */
import { parseBudget } from '../../src/core/budget.ts'
import { parseResource } from '../../src/core/resource.ts'
import { parseScope, UNLIMITED_SCOPE } from '../../src/core/scope.ts'
import { generateSigningKey, type SigningKey } from '../../src/registrar/ed25519.ts'
import { signGrant, type Grant } from '../../src/registrar/grant.ts'
import type { VerificationKey } from '../../src/registrar/verification-key.ts'

export const NOW = 1_700_000_000_000
export const KEY: SigningKey = generateSigningKey()

export function verifier(
  { keyId, publicKey }: SigningKey = KEY,
  facts: Partial<VerificationKey> = {},
): VerificationKey {
  return { keyId, publicKey, state: 'active', retiresAtMs: null, ...facts }
}

export function grant(facts: Partial<Grant> = {}): Grant {
  return {
    id: 'root',
    resource: parseResource('work:W-1'),
    mode: 'exclusive',
    extent: 'exact',
    holder: 'supervisor',
    fence: 7,
    issuedAtMs: NOW,
    expiresAtMs: NOW + 10_000,
    parentId: null,
    audience: null,
    scope: UNLIMITED_SCOPE,
    budget: {},
    ...facts,
  }
}

export const CHILD: Grant = grant({
  id: 'child',
  parentId: 'root',
  holder: 'agent',
  fence: 8,
  expiresAtMs: NOW + 5_000,
  scope: parseScope({ tools: ['edit'], namespaces: ['src'] }),
  budget: parseBudget('budget', { tokens: 100 }),
})

export function chain(...grants: readonly Grant[]): string {
  let token: string | undefined
  for (const one of grants) token = signGrant(one, KEY, token)
  if (token === undefined) throw new Error('a chain has at least one grant')
  return token
}
