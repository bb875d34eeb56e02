import { crashWorker } from '@holdfast/testing'
import pg from 'pg'
import { ledgerBank } from './ledger-bank.js'
import { paymentVia } from './payment.js'

await crashWorker({
  register: (connectionString) => [paymentVia(ledgerBank(new pg.Pool({ connectionString })))],
})
