/** What the page knows for as long as its tab is open, and no longer: the token, and the namespace. */
import type { Credentials } from '../wire/server-calls.ts'

const TOKEN = 'tenure.token'
const NAMESPACE = 'tenure.namespace'

export function storedCredentials(): Credentials {
  return { token: sessionStorage.getItem(TOKEN), namespace: sessionStorage.getItem(NAMESPACE) }
}

export function storeCredentials({ token, namespace }: Credentials): void {
  store(TOKEN, token)
  store(NAMESPACE, namespace)
}

function store(name: string, value: string | null): void {
  if (value === null) sessionStorage.removeItem(name)
  else sessionStorage.setItem(name, value)
}
